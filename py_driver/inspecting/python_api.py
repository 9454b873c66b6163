"""The public API of a Python package, for the comparison of releases: read as text. Pure.

Each name of a public module has a text of lines: for a function its signature; for a class its bases, and a line for
each method, property and attribute, including members of its bases in the package and of nested classes
(`Inner.run(x)`); for anything else the name alone.
"""

from __future__ import annotations

import ast
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from py_driver.inspecting.python_modules import (
    FUNCTIONS,
    alias_of,
    followed,
    home_of,
    is_name,
    offered_names,
    read_modules,
    resolved,
    statements,
    targets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.inspecting.python_modules import Modules

ASYNC: Final = "async "
"""The prefix of a coroutine function's signature."""

STATIC: Final = "static "
"""The prefix of a static or class method's signature."""

CLASS: Final = "class "
"""The prefix of a class's name and bases."""

_INIT: Final = "__init__"
_TESTS: Final = ("test", "tests", "conftest")
_FIELDS: Final = ("dataclass", "NamedTuple")
_PROPERTIES: Final = ("property", "cached_property")
_ON_CLASS: Final = ("staticmethod", "classmethod")
_OVERLOAD: Final = "overload"
_DEEPEST: Final = 5
"""The depth of nested classes whose members are compared: aliases of classes may multiply."""

_REGISTER: Final = ("register_buffer", "register_parameter", "register_module", "add_module")
"""Methods of torch.nn.Module whose first argument becomes an attribute."""

_PLAIN: Final = ("object", "ABC", "Module", "nn.Module", "torch.nn.Module")
"""Bases whose `__init__` has no parameters."""


def public_names(files: Mapping[str, str], package: str) -> dict[str, str]:
    """The public API, by name in the package: `relu`, `layers.Relu`.

    Args:
        files: the texts of its Python files, by path in the package.
        package: its name, which its own modules may import.
    """
    modules = read_modules(files, package)
    found = {}
    for module in sorted(modules):
        if any(part.startswith(("_", "test_")) or part in _TESTS for part in module.split(".")):
            continue
        if module and not (modules[module].names or modules[module].stars):
            found[module] = module  # callers may still import it
        for name in offered_names(modules, module, frozenset()):
            shown = f"{module}.{name}" if module else name
            try:
                text = _text(modules, module, name)
            except RecursionError:
                text = name
            if text is not None:
                found[shown] = text
    return found


def _text(modules: Modules, module: str, name: str) -> str | None:
    """The text of a name; None for a module, whose names have their own texts."""
    value = resolved(modules, module, name, frozenset())
    if isinstance(value, str):
        return None
    if isinstance(value, ast.ClassDef):
        home = home_of(modules, value)
        lines = _class(modules, home, value, frozenset())
        if not {_INIT, "__new__"} & {*lines} and _is_plain(modules, home, value, frozenset()):
            lines[_INIT] = f"{_INIT}()"
        return "\n".join([_head(value, name), *(f"    {line}" for line in lines.values())])
    return _signature(value, name) if value else name


def _head(node: ast.ClassDef, name: str) -> str:
    """The line of a class."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    return f"{CLASS}{name}({bases})" if bases else f"{CLASS}{name}"


def _class(
    modules: Modules,
    module: str,
    node: ast.ClassDef,
    seen: frozenset[int],
    around: Mapping[str, ast.ClassDef] = MappingProxyType({}),
) -> dict[str, str]:
    """The lines of a class by member, members of its bases in the package first.

    Args:
        modules: the modules of the package.
        module: the name of the class's module.
        node: the class.
        seen: the classes that are being processed.
        around: the classes beside it, if it is nested.
    """
    lines: dict[str, str] = {}
    if id(node) in seen:
        return lines
    for base in reversed(node.bases):
        path = alias_of(base) or ""
        known = around.get(path) or (followed(modules, module, path, frozenset()) if path else None)
        if isinstance(known, ast.ClassDef) and path in around:
            lines |= _class(modules, module, known, seen | {id(node)}, around)
        elif isinstance(known, ast.ClassDef):
            lines |= _class(modules, home_of(modules, known), known, seen | {id(node)})
    if _has_fields(node):
        lines[_INIT] = f"{_INIT}({', '.join(_fields(modules, module, node, frozenset()).values())})"
    inner: dict[str, ast.ClassDef] = {}
    for member in statements(node.body):
        own = dict(_member(member))
        lines = {name: line for name, line in lines.items() if name.partition(".")[0] not in own} | own
        for name in own:
            if defined := _class_of(modules, module, member):
                lines |= _inner(modules, *defined, name, seen | {id(node)}, dict(inner))
                inner[name] = defined[1]
        if isinstance(member, ast.FunctionDef) and member.name == _INIT:
            lines = {**{name: name for name in _attributes(member)}, **lines}
    return lines


def _class_of(modules: Modules, module: str, member: ast.stmt) -> tuple[str, ast.ClassDef] | None:
    """The class that a statement in a class defines or names, if it is in the package, and its module."""
    if isinstance(member, ast.ClassDef):
        return module, member
    path = alias_of(member.value) if isinstance(member, ast.Assign | ast.AnnAssign) and member.value else None
    known = followed(modules, module, path, frozenset()) if path else None
    return (home_of(modules, known), known) if isinstance(known, ast.ClassDef) else None


def _inner(  # noqa: PLR0913  (its position, its name, and its context)
    modules: Modules,
    module: str,
    node: ast.ClassDef,
    name: str,
    seen: frozenset[int],
    around: Mapping[str, ast.ClassDef],
) -> dict[str, str]:
    """The lines of a nested class: `class Inner`, `Inner.run(x)`; only the first one if it is nested very deep."""
    if len(seen) > _DEEPEST:
        return {name: _head(node, name)}
    lines = _class(modules, module, node, seen, around)
    if not {_INIT, "__new__"} & {*lines} and _is_plain(modules, module, node, frozenset()):
        lines[_INIT] = f"{_INIT}()"
    return {name: _head(node, name), **{f"{name}.{member}": _within(name, line) for member, line in lines.items()}}


def _within(name: str, line: str) -> str:
    """The line of a member of a nested class, whose name stands behind `class`, `static` and `async`."""
    words = ""
    for word in (CLASS, STATIC, ASYNC):
        if line.startswith(word):
            words, line = words + word, line.removeprefix(word)
    return f"{words}{name}.{line}"


def _is_plain(modules: Modules, module: str, node: ast.ClassDef, seen: frozenset[int]) -> bool:
    """Whether a class without an `__init__` has no parameters: no foreign base, no metaclass."""
    if node.keywords or node.decorator_list or id(node) in seen:
        return False
    for base in node.bases:
        path = alias_of(base)
        known = followed(modules, module, path, frozenset()) if path else None
        if isinstance(known, ast.ClassDef):
            if not _is_plain(modules, home_of(modules, known), known, seen | {id(node)}):
                return False
        elif path not in _PLAIN:
            return False
    return True


def _has_fields(node: ast.ClassDef) -> bool:
    words = " ".join(ast.unparse(part) for part in (*node.decorator_list, *node.bases))
    return any(word in words for word in _FIELDS)


def _attributes(node: ast.FunctionDef) -> Iterator[str]:
    """The public attributes that an `__init__` sets."""
    itself = next((part.arg for part in (*node.args.posonlyargs, *node.args.args)), "")
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == itself:
            name: object = part.attr
        elif isinstance(part, ast.Call) and ast.unparse(part.func) in {f"{itself}.{word}" for word in _REGISTER}:
            name = part.args[0].value if part.args and isinstance(part.args[0], ast.Constant) else ""
        else:
            continue
        if isinstance(name, str) and is_name(name):
            yield name


def _fields(modules: Modules, module: str, node: ast.ClassDef, seen: frozenset[int]) -> dict[str, str]:
    """The parameters from the fields of a dataclass or a named tuple, fields of bases in the package first."""
    found: dict[str, str] = {}
    for base in reversed(node.bases) if id(node) not in seen else ():
        known = followed(modules, module, path, frozenset()) if (path := alias_of(base)) else None
        if isinstance(known, ast.ClassDef) and _has_fields(known):
            found |= _fields(modules, home_of(modules, known), known, seen | {id(node)})
    if any("kw_only=True" in ast.unparse(part) for part in node.decorator_list):
        found["*"] = "*"
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            annotation, default = ast.unparse(field.annotation), field.value
            words: dict[str | None, ast.expr] = {}
            if isinstance(default, ast.Call) and ast.unparse(default.func).rpartition(".")[2] == "field":
                words = {word.arg: word.value for word in default.keywords}
                default = words.get("default", words.get("default_factory"))
            if "ClassVar" in annotation or ("init" in words and ast.unparse(words["init"]) == "False"):
                continue
            written = f" = {ast.unparse(default)}" if default else ""
            found[field.target.id] = f"{field.target.id}: {annotation}{written}"
    return found


def _member(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """The public names that a statement in a class binds, each with its line."""
    if isinstance(node, FUNCTIONS) and _is_public(node.name):
        decorators = [ast.unparse(part).rpartition(".")[2] for part in node.decorator_list]
        if any(word in decorators for word in _PROPERTIES):
            yield node.name, node.name
        elif not {_OVERLOAD, "setter", "deleter"} & {*decorators}:
            static = STATIC if {*_ON_CLASS} & {*decorators} else ""
            yield node.name, f"{static}{_signature(node, node.name, bound='staticmethod' not in decorators)}"
    elif isinstance(node, ast.ClassDef) and _is_public(node.name):
        yield node.name, node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        yield from ((name, name) for name in targets(node) if _is_public(name))


def _is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, bound: bool = False) -> str:
    """The signature of a function for its callers.

    Args:
        node: the function.
        name: its name for callers.
        bound: whether callers do not pass the first argument.
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
