"""Foreign text as Markdown: code spans, escaped prose, arguments of functions. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.publishing.docstring import Argument
    from py_driver.publishing.public_api import Offer

_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`)(.*?[^`])\1(?!`)")
"""A code span of CommonMark: closed by as many backquotes as it is opened with."""

_SIGNS: Final = re.compile(r"([\\`*_<>\[\]#|&~])")
"""The characters with a meaning in Markdown or HTML; a backslash escapes them."""


def code(text: str) -> str:
    """A text as a span of code.

    Args:
        text: a single line.
    """
    marks = "`"
    while marks in text:
        marks += "`"
    blank = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{marks}{blank}{text}{blank}{marks}"


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a docstring's text, each with whether the docstring marks it as code.

    Args:
        text: a single line.
    """
    end = 0
    for span in _SPAN.finditer(text):
        yield text[end : span.start()], False
        content = span[2]
        padded = content.strip(" ") and content.startswith(" ") and content.endswith(" ")
        yield content[1:-1] if padded else content, True
        end = span.end()
    yield text[end:], False


def prose(text: str) -> str:
    """A docstring's text as prose: code spans are kept, all other markup is escaped.

    Args:
        text: a single line.
    """
    return "".join(code(piece) if is_code else _SIGNS.sub(r"\\\1", piece) for piece, is_code in pieces(text))


def arguments(offer: Offer) -> Iterator[str]:
    """The arguments of a function with their types, and what it returns: a line of a list for each.

    Args:
        offer: the function, or a class with the arguments of its constructor.
    """
    for argument in offer.arguments:
        kind = ", ".join(_kind(argument))
        text = f": {prose(argument.text)}" if argument.text else ""
        yield f"- {code(argument.name)}{f' ({kind})' if kind else ''}{text}"
    if offer.returns:
        yield f"- returns: {prose(offer.returns)}"


def _kind(argument: Argument) -> Iterator[str]:
    """The type and the default of an argument."""
    if argument.type:
        yield code(argument.type)
    if argument.default:
        yield f"default {code(argument.default)}"
