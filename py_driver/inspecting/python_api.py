"""What callers of a Python package can use, for the comparison of releases: read as text. Pure.

Each name of a public module is a text of lines: a function its signature; a class its bases, and a line for each
method, property and attribute, also those of its bases in the package; anything else the bare name.
"""

from __future__ import annotations

import ast
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    Modules = Mapping[str, "_Module"]

ASYNC: Final = "async "
"""What stands before the signature of a coroutine function."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_INIT: Final = "__init__"
_ALL: Final = "__all__"
_MORE: Final = (f"{_ALL}.extend(", f"{_ALL}.append(")
_TESTS: Final = ("test", "tests", "conftest")
_FIELDS: Final = ("dataclass", "NamedTuple")
_PROPERTIES: Final = ("property", "cached_property")
_OVERLOAD: Final = "overload"


class _Reference(NamedTuple):
    """What an import takes from a module of the package.

    Attributes:
        module: that it imports from.
        name: that it takes; empty for the module itself.
    """

    module: str
    name: str


class _Module(NamedTuple):
    """What a module binds.

    Attributes:
        names: each with its definition, what an import takes, the name that it is another one for, or None.
        stars: the modules whose names it takes all.
        offered: what its `__all__` says; None without one.
    """

    names: Mapping[str, Definition | _Reference | str | None]
    stars: tuple[str, ...]
    offered: tuple[str, ...] | None


def public_names(files: Mapping[str, str], package: str) -> dict[str, str]:
    """What callers can use, by its name in the package: `relu`, `layers.Relu`.

    Args:
        files: the texts of its Python files by their paths within the package.
        package: its name, which its own modules may import it by.
    """
    trees = {_dotted(path): tree for path, text in files.items() if (tree := _parsed(text)) is not None}
    packages = {_dotted(path) for path in files if PurePosixPath(path).stem == _INIT}
    modules = {
        name: _read(
            tree.body,
            partial(_imported, module=name, is_package=name in packages, package=package),
            {_dotted(path) for path in files},
        )
        for name, tree in trees.items()
    }
    found = {}
    for module in sorted(modules):
        if any(part.startswith(("_", "test_")) or part in _TESTS for part in module.split(".")):
            continue
        for name in _offered(modules, module, frozenset()):
            shown = f"{module}.{name}" if module else name
            try:
                text = _text(modules, module, name)
            except RecursionError:
                text = name
            if text is not None:
                found[shown] = text
    return found


def _dotted(path: str) -> str:
    """The name of a module in its package; empty for the package itself."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == _INIT else parts)


def _parsed(text: str) -> ast.Module | None:
    """A module; None where this Python cannot read it."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those in `if`, `try` and `with`."""
    for node in body:
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, field, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)


def _read(body: Iterable[ast.stmt], base: Callable[[ast.ImportFrom], str | None], known: set[str]) -> _Module:
    """What a module binds.

    Args:
        body: of the module.
        base: the module of the package that an import is from.
        known: the names of the modules of the package.
    """
    names: dict[str, Definition | _Reference | str | None] = {}
    stars: list[str] = []
    offered: list[str] | None = None
    for node in _statements(body):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.ImportFrom) and (module := base(node)) is not None:
            stars += [module for alias in node.names if alias.name == "*"]
            for alias in node.names:
                below = f"{module}.{alias.name}".lstrip(".")
                taken = _Reference(below, "") if below in known else _Reference(module, alias.name)
                names |= {alias.asname or alias.name: taken} if alias.name != "*" else {}
        elif isinstance(node, ast.Expr) and ast.unparse(node.value).startswith(_MORE):
            offered = [*(offered or ()), *_texts(node.value)]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and _ALL in _targets(node):
            offered = [*((offered or ()) if isinstance(node, ast.AugAssign) else ()), *_texts(node.value)]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names |= dict.fromkeys(_targets(node), node.value.id if isinstance(node.value, ast.Name) else None)
    return _Module(names, tuple(stars), None if offered is None else tuple(offered))


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[str]:
    """The names that a statement binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [
        part.id
        for target in targets
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    ]


def _imported(node: ast.ImportFrom, *, module: str, is_package: bool, package: str) -> str | None:
    """The module of the package that an import is from; None for one of another package."""
    parts = module.split(".") if module else []
    words = node.module.split(".") if node.module else []
    if not node.level:
        return ".".join(words[1:]) if words and words[0] == package else None
    above = node.level - is_package
    return ".".join([*parts[: len(parts) - above], *words]) if above <= len(parts) else None


def _texts(node: ast.expr | None) -> list[str]:
    """The names in what `__all__` becomes; `*MODULE` for those of another `__all__`."""
    found: list[str] = []
    for part in ast.walk(node) if node else ():
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.append(part.value)
        elif isinstance(part, ast.Attribute) and part.attr == _ALL:
            found.append(f"*{ast.unparse(part.value)}")
    return list(dict.fromkeys(found))


def _offered(modules: Modules, module: str, seen: frozenset[str]) -> list[str]:
    """The names that a module offers: those of its `__all__`, or those without `_`."""
    if module not in modules or module in seen:
        return []
    own, seen = modules[module], seen | {module}
    if own.offered is None:
        # Without `__all__`, what a module takes from others is a name of its package alone.
        names = [name for star in own.stars for name in _offered(modules, star, seen)]
        return [name for name in dict.fromkeys((*own.names, *names)) if not name.startswith("_")]
    found = []
    for name in own.offered:
        reference = own.names.get(name.removeprefix("*")) if name.startswith("*") else None
        if isinstance(reference, _Reference):
            found += _offered(modules, reference.module, seen)
        elif not name.startswith("*"):
            found.append(name)
    return list(dict.fromkeys(found))


def _resolved(modules: Modules, module: str, name: str, seen: frozenset[tuple[str, str]]) -> Definition | str | None:
    """What a name in a module stands for: a definition, the name of a module, or None for anything else."""
    if module not in modules or (module, name) in seen:
        return None
    own, seen = modules[module], seen | {(module, name)}
    if name in own.names:
        value = own.names[name]
        if isinstance(value, _Reference):
            return value.module if not value.name else _resolved(modules, value.module, value.name, seen)
        return _resolved(modules, module, value, seen) if isinstance(value, str) else value
    found = (_resolved(modules, star, name, seen) for star in own.stars if name in _offered(modules, star, frozenset()))
    return next((value for value in found if value is not None), None)


def _text(modules: Modules, module: str, name: str) -> str | None:
    """What callers can rely on of a name; None for a module, whose names stand for themselves."""
    value = _resolved(modules, module, name, frozenset())
    if isinstance(value, str):
        return None
    if isinstance(value, ast.ClassDef):
        lines = _class(modules, module, value, frozenset())
        bases = ", ".join(ast.unparse(base) for base in value.bases)
        return "\n".join(
            [f"class {name}({bases})" if bases else f"class {name}", *(f"    {line}" for line in lines.values())]
        )
    return _signature(value, name) if value else name


def _class(modules: Modules, module: str, node: ast.ClassDef, seen: frozenset[int]) -> dict[str, str]:
    """The lines of a class by the names of its members, those of its bases in the package first."""
    lines: dict[str, str] = {}
    if id(node) in seen:
        return lines
    for base in reversed(node.bases):
        known = _resolved(modules, module, base.id, frozenset()) if isinstance(base, ast.Name) else None
        if isinstance(known, ast.ClassDef):
            lines |= _class(modules, module, known, seen | {id(node)})
    words = " ".join(ast.unparse(part) for part in (*node.decorator_list, *node.bases))
    if any(word in words for word in _FIELDS):
        lines[_INIT] = f"{_INIT}({', '.join(_fields(node))})"
    for member in _statements(node.body):
        lines |= dict(_member(member))
    return lines


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """The parameters that the fields of a dataclass or a named tuple are."""
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            default = f" = {ast.unparse(field.value)}" if field.value else ""
            yield f"{field.target.id}: {ast.unparse(field.annotation)}{default}"


def _member(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """What callers can use of a statement in a class: names, each with its line."""
    if isinstance(node, _FUNCTIONS) and _is_public(node.name):
        decorators = [ast.unparse(part).rpartition(".")[2] for part in node.decorator_list]
        if any(word in decorators for word in _PROPERTIES):
            yield node.name, node.name
        elif not {_OVERLOAD, "setter", "deleter"} & {*decorators}:
            yield node.name, _signature(node, node.name, bound="staticmethod" not in decorators)
    elif isinstance(node, ast.ClassDef) and _is_public(node.name):
        yield node.name, node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        yield from ((name, name) for name in _targets(node) if _is_public(name))


def _is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, bound: bool = False) -> str:
    """A function as callers see it.

    Args:
        node: of the function.
        name: as callers call it.
        bound: whether the first argument is none of the call.
    """
    arguments = node.args
    if bound:
        first = [*arguments.posonlyargs, *arguments.args][:1]
        kept = [[part for part in parts if part not in first] for parts in (arguments.posonlyargs, arguments.args)]
        count = len(kept[0]) + len(kept[1])
        defaults = arguments.defaults[max(len(arguments.defaults) - count, 0) :]
        arguments = ast.arguments(
            posonlyargs=kept[0],
            args=kept[1],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=defaults,
        )
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    prefix = ASYNC if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{name}({ast.unparse(arguments)}){returns}"
