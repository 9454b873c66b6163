"""The names that modules of a Python package bind, and their meaning: read as text. Pure."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    Modules = Mapping[str, "Module"]

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
"""Definitions of functions."""

_INIT: Final = "__init__"
_ALL: Final = "__all__"
_MORE: Final = (f"{_ALL}.extend(", f"{_ALL}.append(")
_LESS: Final = f"{_ALL}.remove("
_LISTING: Final = ("list", "set", "sorted", "tuple")
_LAZY: Final = "__getattr__"


class Reference(NamedTuple):
    """The target of an import from a module of the package.

    Attributes:
        module: the module.
        name: the name; empty for the module itself.
    """

    module: str
    name: str


class Module(NamedTuple):
    """The names that a module binds.

    Attributes:
        names: each with its definition, the target of an import, the name that it is an alias of (`f`, `module.f`), or
            None.
        stars: the modules of its star imports.
        offered: its `__all__`; None without one.
    """

    names: Mapping[str, Definition | Reference | str | None]
    stars: tuple[str, ...]
    offered: tuple[str, ...] | None


def read_modules(files: Mapping[str, str], package: str) -> dict[str, Module]:
    """The modules of a package by dotted name; the package itself has an empty name.

    Args:
        files: the texts of its Python files, by path in the package.
        package: its name, which its own modules may import.
    """
    trees = {_dotted(path): tree for path, text in files.items() if (tree := _parsed(text)) is not None}
    packages = {_dotted(path) for path in files if PurePosixPath(path).stem == _INIT}
    known = {_dotted(path) for path in files}
    return {
        name: _read(
            tree.body,
            partial(_imported, module=name, is_package=name in packages, package=package),
            package,
            known,
        )
        for name, tree in trees.items()
    }


def _dotted(path: str) -> str:
    """The name of a module in its package; empty for the package itself."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == _INIT else parts)


def _parsed(text: str) -> ast.Module | None:
    """The syntax tree of a module; None if this Python cannot parse it."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those in `if`, `try` and `with`."""
    for node in body:
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                yield from statements(getattr(node, field, ()))
            for handler in getattr(node, "handlers", ()):
                yield from statements(handler.body)


def _read(  # noqa: C901, PLR0912  (a branch for each kind of statement)
    body: Sequence[ast.stmt], base: Callable[[ast.ImportFrom], str | None], package: str, known: set[str]
) -> Module:
    """The names that a module binds.

    Args:
        body: the body of the module.
        base: returns the module of the package that an import is from.
        package: the name of the package.
        known: the names of the modules of the package.
    """
    names: dict[str, Definition | Reference | str | None] = {}
    stars: list[str] = []
    offered: list[str] | None = None
    is_open = False
    for node in statements(body):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                names.pop(ast.unparse(target), None)
        elif isinstance(node, ast.Import):
            names |= dict(_imports(node, package))
        elif isinstance(node, ast.ImportFrom) and (module := base(node)) is not None:
            stars += [module for alias in node.names if alias.name == "*"]
            for alias in node.names:
                below = f"{module}.{alias.name}".lstrip(".")
                taken = Reference(below, "") if below in known else Reference(module, alias.name)
                names |= {alias.asname or alias.name: taken} if alias.name != "*" else {}
        elif isinstance(node, ast.Expr) and ast.unparse(node.value).startswith(_LESS):
            offered = [name for name in offered or () if name not in _texts(node.value)]
        elif isinstance(node, ast.Expr) and ast.unparse(node.value).startswith(_MORE):
            offered = [*(offered or ()), *_texts(node.value)]
            is_open |= not all(map(_is_listing, getattr(node.value, "args", ())))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and _ALL in targets(node):
            offered = [*((offered or ()) if isinstance(node, ast.AugAssign) else ()), *_texts(node.value)]
            is_open |= not (node.value and _is_listing(node.value))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names |= dict.fromkeys(targets(node), alias_of(node.value))
    for name, value in _lazy(names.get(_LAZY), body, known):
        names.setdefault(name, value)
    if is_open:  # known only at run time
        names = {**dict.fromkeys(name for name in offered or () if name.isidentifier()), **names}
    return Module(names, tuple(stars), None if offered is None or is_open else tuple(offered))


def _imports(node: ast.Import, package: str) -> Iterator[tuple[str, Reference]]:
    """The modules of the package itself that a statement imports by their full names."""
    for alias in node.names:
        top, _, below = alias.name.partition(".")
        if top == package:
            yield alias.asname or top, Reference(below if alias.asname else "", "")


def alias_of(value: ast.expr) -> str | None:
    """The name `f` or `module.f` that is the value; None for any other value."""
    parts = value
    while isinstance(parts, ast.Attribute):
        parts = parts.value
    return ast.unparse(value) if isinstance(parts, ast.Name) else None


def _is_listing(value: ast.expr) -> bool:
    """Whether a value for `__all__`, or an addition to it, is literal."""
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return all(map(_is_listing, value.elts))
    if isinstance(value, ast.BinOp):
        return _is_listing(value.left) and _is_listing(value.right)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in _LISTING and all(map(_is_listing, value.args))
    if isinstance(value, ast.Starred):
        return _is_listing(value.value)
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Attribute) and value.attr == _ALL)


def _lazy(
    getter: Definition | Reference | str | None, body: Iterable[ast.stmt], known: set[str]
) -> Iterator[tuple[str, Reference | None]]:
    """The names that a module's `__getattr__` provides: names that it compares with, or looks up in a table.

    Args:
        getter: the function.
        body: the body of the module.
        known: the names of the package's modules: a module beside a name in a table defines the name.
    """
    if not isinstance(getter, FUNCTIONS):
        return
    used = {part.id for part in ast.walk(getter) if isinstance(part, ast.Name)}
    asked = getter.args.args[0].arg if getter.args.args else ""
    compared = [
        part
        for part in ast.walk(getter)
        if isinstance(part, ast.match_case)
        or (
            isinstance(part, ast.Compare)
            and any(isinstance(own, ast.Name) and own.id == asked for own in ast.walk(part))
        )
    ]
    tables = [
        node.value
        for node in statements(body)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and used & {*targets(node)}
    ]
    parts = [part for node in compared for part in ast.walk(node.pattern if isinstance(node, ast.match_case) else node)]
    parts += [part for table in tables if not isinstance(table, ast.Dict) for part in ast.walk(table)]
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and is_name(part.value):
            yield part.value, None
    for table in tables:
        for key, value in zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and is_name(key.value):
                module = str(value.value).lstrip(".") if isinstance(value, ast.Constant) else ""
                yield key.value, Reference(module, key.value) if module and module in known else None


def is_name(text: str) -> bool:
    """Whether a text is a public name."""
    return text.isidentifier() and not text.startswith("_")


def targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[str]:
    """The names that a statement binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [
        part.id
        for target in targets
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    ]


def _imported(node: ast.ImportFrom, *, module: str, is_package: bool, package: str) -> str | None:
    """The module of the package that an import is from; None for another package."""
    parts = module.split(".") if module else []
    words = node.module.split(".") if node.module else []
    if not node.level:
        return ".".join(words[1:]) if words and words[0] == package else None
    above = node.level - is_package
    return ".".join([*parts[: len(parts) - above], *words]) if above <= len(parts) else None


def _texts(node: ast.expr | None) -> list[str]:
    """The names in a value for `__all__`; `*MODULE` for the names of another `__all__`."""
    found: list[str] = []
    for part in ast.walk(node) if node else ():
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.append(part.value)
        elif isinstance(part, ast.Attribute) and part.attr == _ALL:
            found.append(f"*{ast.unparse(part.value)}")
    return list(dict.fromkeys(found))


def offered_names(modules: Modules, module: str, seen: frozenset[str]) -> list[str]:
    """The public names of a module: its `__all__`, or its names without `_`."""
    if module not in modules or module in seen:
        return []
    own, seen = modules[module], seen | {module}
    if own.offered is None:
        # Without `__all__`, imported names count only if they come from the package.
        names = [name for star in own.stars for name in offered_names(modules, star, seen)]
        return [name for name in dict.fromkeys((*own.names, *names)) if not name.startswith("_")]
    found = []
    for name in own.offered:
        reference = own.names.get(name.removeprefix("*")) if name.startswith("*") else None
        if isinstance(reference, Reference):
            found += offered_names(modules, reference.module, seen)
        elif not name.startswith("*"):
            found.append(name)
    return list(dict.fromkeys(found))


def resolved(modules: Modules, module: str, name: str, seen: frozenset[tuple[str, str]]) -> Definition | str | None:
    """The meaning of a name in a module: a definition, the name of a module, or None for anything else."""
    if module not in modules or (module, name) in seen:
        return None
    own, seen = modules[module], seen | {(module, name)}
    if name in own.names:
        value = own.names[name]
        if isinstance(value, Reference):
            return value.module if not value.name else resolved(modules, value.module, value.name, seen)
        return followed(modules, module, value, seen) if isinstance(value, str) else value
    if (below := f"{module}.{name}".lstrip(".")) in modules:
        return below
    found = (
        resolved(modules, star, name, seen) for star in own.stars if name in offered_names(modules, star, frozenset())
    )
    return next((value for value in found if value is not None), None)


def followed(modules: Modules, module: str, path: str, seen: frozenset[tuple[str, str]]) -> Definition | str | None:
    """The meaning of `f` or `module.f` in a module."""
    found: Definition | str | None = module
    for name in path.split("."):
        found = resolved(modules, found, name, seen) if isinstance(found, str) else None
    return found


def home_of(modules: Modules, definition: Definition) -> str:
    """The name of a definition's module."""
    return next(name for name, module in modules.items() if any(own is definition for own in module.names.values()))
