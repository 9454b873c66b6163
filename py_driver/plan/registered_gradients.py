"""The ops whose gradients a Python package registers, as far as its text shows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ALL = "*"
"""The name that stands for any op, if the text does not name it."""

_WORDS = ("register_autograd", "Function", "Autograd", "CompositeImplicit")
"""A text without these words registers no gradient."""


def registered(texts: Iterable[str]) -> frozenset[str]:
    """The names of the ops with a gradient, without namespaces; with `ALL` if any other op may have one.

    The functions that a backward calls are included: a backward's first parameter is `ctx`, as in torch's
    documentation.

    Args:
        texts: the texts of the package's Python files.
    """
    return frozenset(name for text in texts if any(word in text for word in _WORDS) for name in _names(text))


def _names(text: str) -> Iterator[str]:
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield ALL
        return
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node.args.args and node.args.args[0].arg == "ctx":
            yield from (part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute))
        if isinstance(node, ast.ClassDef) and any(_last(base).endswith("Function") for base in node.bases):
            yield ALL  # its methods may call any op, also through functions
        if isinstance(node, ast.Call) and node.args and _registers(node):
            yield _op(node.args[0])


def _registers(call: ast.Call) -> bool:
    """Whether a call registers the gradient of the op that its first argument names."""
    if _last(call.func) == "register_autograd":
        # As a method, `op.register_autograd(backward)`, it is for an op that Python defines.
        return not isinstance(call.func, ast.Attribute) or _last(call.func.value) == "library"
    words = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return _last(call.func) == "impl" and any(word.startswith(_WORDS[2:]) for word in words)


def _op(argument: ast.expr) -> str:
    """The name of the op in `"ns::relu"`, `prefix("relu")`, `f"{ns}::relu"` or `ops.relu.default`."""
    if isinstance(argument, ast.Call) and len(argument.args) == 1:
        return _op(argument.args[0])
    if isinstance(argument, ast.JoinedStr) and argument.values:
        last = argument.values[-1]
        return _op(last) if isinstance(last, ast.Constant) and "::" in str(last.value) else ALL
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value.rpartition("::")[2].removesuffix(".default")
    if isinstance(argument, ast.Attribute) and argument.attr == "default":
        return _op(argument.value)
    if isinstance(argument, ast.Attribute) and _last(argument.value) == "ops":
        return argument.attr
    return ALL


def _last(expression: ast.expr) -> str:
    """The last part of a name: `Function` of `torch.autograd.Function`."""
    return getattr(expression, "attr", "") or getattr(expression, "id", "")
