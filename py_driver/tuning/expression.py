"""Conditions on parameters and problem sizes: a small part of Python's expressions, without `eval`. Pure."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ARITHMETIC: Final[Mapping[type[ast.operator], tuple[Callable[[int, int], int], str]]] = {
    ast.Add: (operator.add, "+"),
    ast.Sub: (operator.sub, "-"),
    ast.Mult: (operator.mul, "*"),
    ast.FloorDiv: (operator.floordiv, "floor_div"),
    ast.Mod: (operator.mod, "floor_mod"),
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[Callable[[int, int], bool], str]]] = {
    ast.Eq: (operator.eq, "=="),
    ast.NotEq: (operator.ne, "!="),
    ast.Lt: (operator.lt, "<"),
    ast.LtE: (operator.le, "<="),
    ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="),
}


LARGEST: Final = (1 << 62) - 1
"""The largest number of a size or in a condition, which the header has as `long long`."""

_LONGEST: Final = 500
_FALSE: Final = frozenset({"false", "0"})
_DECIDED: Final = _FALSE | {"true", "1"}


class Expression:
    """A condition like `cols % VEC == 0 and THREADS <= 512`.

    Attributes:
        text: the text of the condition.
        names: its names.
    """

    def __init__(self, text: str) -> None:
        """Parse the condition.

        Raises:
            ValueError: it is not a condition; the message has the reason.
        """
        self.text = text
        if len(text) > _LONGEST:
            raise ValueError(f"it is not an expression of at most {_LONGEST} characters")
        try:
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"`{text}` is no expression") from None
        names: set[str] = set()
        self._check(self._tree, names)
        self.names = frozenset(names)

    def _check(self, node: ast.expr, names: set[str]) -> None:
        """Collect the names of a part.

        Raises:
            ValueError: a construct is not allowed.
        """
        match node:
            case ast.Name():
                names.add(node.id)
            case ast.Constant() if type(node.value) is int and node.value <= LARGEST:
                pass
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                self._check(node.left, names)
                self._check(node.right, names)
            case ast.UnaryOp() if isinstance(node.op, ast.Not | ast.USub):
                self._check(node.operand, names)
            case ast.BoolOp():
                for operand in node.values:
                    self._check(operand, names)
            case ast.Compare() if all(type(operator) in _COMPARISONS for operator in node.ops):
                for operand in (node.left, *node.comparators):
                    self._check(operand, names)
            case _:
                allowed = "integers, names, + - * // %, comparisons, and, or, not"
                raise ValueError(f"`{ast.unparse(node)}` is not allowed in a condition; there are {allowed}")

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is true.

        Args:
            values: the values of all its names.

        Raises:
            ValueError: a value is divided by zero.
        """
        try:
            return bool(self._value(self._tree, values))
        except ZeroDivisionError:
            raise ValueError(f"`{self.text}` divides by zero") from None

    def _value(self, node: ast.expr, values: Mapping[str, int]) -> int:
        match node:
            case ast.Name():
                return values[node.id]
            case ast.BinOp():
                return _ARITHMETIC[type(node.op)][0](self._value(node.left, values), self._value(node.right, values))
            case ast.UnaryOp():
                value = self._value(node.operand, values)
                return not value if isinstance(node.op, ast.Not) else -value
            case ast.BoolOp():
                every = all if isinstance(node.op, ast.And) else any
                return every(self._value(operand, values) for operand in node.values)
            case ast.Compare():
                sides = [self._value(operand, values) for operand in (node.left, *node.comparators)]
                return all(
                    _COMPARISONS[type(how)][0](left, right)
                    for how, left, right in zip(node.ops, sides, sides[1:], strict=False)
                )
            case _:
                return int(ast.literal_eval(node))

    def as_cpp(self, values: Mapping[str, int]) -> str:
        """The rest of the condition in C++ with values for a part of the names: `true` if they decide it.

        Args:
            values: the values by name; other names stay.

        Raises:
            ValueError: a value is divided by zero.
        """
        try:
            return self._cpp(self._tree, values)
        except ZeroDivisionError:
            raise ValueError(f"`{self.text}` divides by zero") from None

    def _cpp(self, node: ast.expr, values: Mapping[str, int]) -> str:
        if {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} <= values.keys():
            value = self._value(node, values)
            return str(value).lower() if isinstance(value, bool) else str(value)
        match node:
            case ast.BinOp():
                sign, left, right = (
                    _ARITHMETIC[type(node.op)][1],
                    self._cpp(node.left, values),
                    self._cpp(node.right, values),
                )
                # C++ rounds to zero, Python down: the header has functions that round like Python.
                return f"{sign}({left}, {right})" if sign.startswith("floor") else f"({left} {sign} {right})"
            case ast.UnaryOp():
                return f"({'!' if isinstance(node.op, ast.Not) else '-'}{self._cpp(node.operand, values)})"
            case ast.BoolOp():
                return self._joined(
                    isinstance(node.op, ast.And), (self._cpp(operand, values) for operand in node.values)
                )
            case ast.Compare():
                sides = [self._cpp(operand, values) for operand in (node.left, *node.comparators)]
                parts = [
                    f"({left} {_COMPARISONS[type(how)][1]} {right})"
                    for how, left, right in zip(node.ops, sides, sides[1:], strict=False)
                ]
                return parts[0] if len(parts) == 1 else self._joined(True, iter(parts))  # noqa: FBT003  (all must hold)
            case _:
                return ast.unparse(node)

    @staticmethod
    def _joined(every: bool, parts: Iterator[str]) -> str:  # noqa: FBT001
        """Conditions joined with `&&` or `||`, without decided ones, and without those after a decision."""
        left = []
        for part in parts:
            if part in _DECIDED:
                if (part in _FALSE) == every:
                    return "false" if every else "true"
                continue
            left.append(part)
        if not left:
            return "true" if every else "false"
        return f"bool({left[0]})" if len(left) == 1 else f"({(' && ' if every else ' || ').join(left)})"
