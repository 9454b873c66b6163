"""The arguments of a function from its signature and its docstring in Google style. Pure."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Function = ast.FunctionDef | ast.AsyncFunctionDef

_SECTION: Final = re.compile(r"(\w+):\s*")
_ARGUMENTS: Final = ("Args", "Arguments", "Parameters")
_RETURNS: Final = ("Returns", "Return")
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\((?P<type>[^()]*(?:\([^()]*\)[^()]*)*)\))?\s*:\s*(?P<text>.*)")
"""`name: text` or `name (type): text`."""


class Argument(NamedTuple):
    """An argument of a function.

    Attributes:
        name: the name with the stars of `*args` and `**kwargs`.
        type: its annotation, or else the type in the docstring; empty without either.
        default: its default in the signature; empty without one.
        text: its description in the docstring, in one line; empty if there is none.
    """

    name: str
    type: str
    default: str
    text: str


def arguments(node: Function, docstring: str, skipped: int = 0) -> tuple[Argument, ...]:
    """The arguments of a function; empty if the docstring describes none of them.

    Args:
        node: the function.
        docstring: the function's own, or its class's.
        skipped: how many leading parameters callers do not pass, such as `self`.
    """
    described = _described(docstring)
    found = []
    for argument, stars, default in _parameters(node.args):
        kind, text = described.get(argument.arg, ("", ""))
        annotation = ast.unparse(argument.annotation) if argument.annotation else kind
        found.append(
            Argument(
                name=f"{stars}{argument.arg}",
                type=annotation,
                default=ast.unparse(default) if default else "",
                text=text,
            )
        )
    found = found[skipped:]
    return tuple(found) if any(argument.text for argument in found) else ()


def returns(docstring: str) -> str:
    """The docstring's description of the return value, in one line; empty if there is none.

    Args:
        docstring: the docstring of the function.
    """
    return next((_line(lines) for name, lines in _sections(docstring) if name in _RETURNS), "")


def _parameters(args: ast.arguments) -> Iterator[tuple[ast.arg, str, ast.expr | None]]:
    """The parameters of a signature in order, each with its stars and its default."""
    usual = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(usual) - len(args.defaults)) + list(args.defaults)
    for argument, default in zip(usual, defaults, strict=True):
        yield argument, "", default
    if args.vararg:
        yield args.vararg, "*", None
    for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield argument, "", default
    if args.kwarg:
        yield args.kwarg, "**", None


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """The named sections of a docstring, each with its lines."""
    name, lines = "", list[str]()
    for line in docstring.splitlines():
        title = _SECTION.fullmatch(line)
        if title or (line and not line[0].isspace()):
            if name:
                yield name, lines
            name, lines = title[1] if title else "", []
        else:
            lines.append(line)
    if name:
        yield name, lines


def _described(docstring: str) -> Mapping[str, tuple[str, str]]:
    """The type and the text in the docstring for each argument."""
    entries: dict[str, tuple[str, list[str]]] = {}
    for _, lines in (section for section in _sections(docstring) if section[0] in _ARGUMENTS):
        indent = min((_indent(line) for line in lines if line.strip()), default=0)
        last: list[str] = []
        for line in lines:
            entry = _ENTRY.fullmatch(line.strip()) if _indent(line) == indent else None
            if entry:
                last = [entry["text"]]
                entries[entry["name"]] = (entry["type"] or "", last)
            else:
                last.append(line)
    return {name: (kind.strip("` "), _line(lines)) for name, (kind, lines) in entries.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _line(lines: list[str]) -> str:
    """Join lines into one."""
    return " ".join(" ".join(lines).split())
