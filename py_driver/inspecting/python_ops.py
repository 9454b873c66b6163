"""The ops that a Python file registers with torch, by calls with literal arguments: read as text. Pure."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from py_driver.inspecting.python_modules import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

_DECORATORS: Final = ("custom_op", "triton_op")
_DEFINE: Final = "define"
_LIBRARY: Final = "Library"


def registered_ops(text: str) -> dict[str, str]:
    """The ops of a file by `namespace::name`: a schema, or the signature of a function with its own name.

    Args:
        text: the text of the file; without ops if this Python cannot parse it.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {**dict(_decorated(tree)), **dict(_defined(tree))}


def _decorated(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`@torch.library.custom_op("ns::name", ...)` and similar decorators, with the decorated function."""
    for node in ast.walk(tree):
        for part in node.decorator_list if isinstance(node, FUNCTIONS) else ():
            if isinstance(part, ast.Call) and _last(part.func) in _DECORATORS and (words := _texts(part)):
                assert isinstance(node, FUNCTIONS)  # noqa: S101  (as above)
                schema = [word.value for word in part.keywords if word.arg == "schema"]
                stated = schema[0].value if schema and isinstance(schema[0], ast.Constant) else None
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                own = f"{words[0].rpartition('::')[2]}({ast.unparse(node.args)}){returns}"
                yield words[0], f"{words[0]}{stated}" if isinstance(stated, str) else own


def _defined(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`torch.library.define("ns::name", "(...) -> ...")`, and `library.define("name(...) -> ...")`."""
    libraries = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _last(node.value.func) == _LIBRARY:
            for target in node.targets:
                libraries[ast.unparse(target)] = next(iter(_texts(node.value)), "")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _last(node.func) != _DEFINE or not (words := _texts(node)):
            continue
        name, bracket, _ = words[0].partition("(")
        if bracket and isinstance(node.func, ast.Attribute):
            namespace = libraries.get(ast.unparse(node.func.value), "")
            yield f"{namespace}::{name.strip()}", f"{namespace}::{words[0].strip()}"
        elif "::" in name and len(words) > 1:
            yield name, f"{name}{words[1]}"


def _last(node: ast.expr) -> str:
    """The last part of a called name."""
    return ast.unparse(node).rpartition(".")[2]


def _texts(call: ast.Call) -> list[str]:
    """The leading literal texts among a call's arguments."""
    found = []
    for argument in call.args:
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            break
        found.append(argument.value)
    return found
