"""Splits C++ text into statements, arguments and brackets, without a compiler."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from py_driver.plan.cpp_text import blanked, closing, stripped

if TYPE_CHECKING:
    from collections.abc import Iterator

_STRING: Final = re.compile(
    r'\s*(?:R"(?P<mark>[^\s()\\"]{0,16})\((?P<raw>[\s\S]*?)\)(?P=mark)"|(?P<plain>"(?:[^"\\\n]|\\[\s\S])*"))'
)


class Code:
    """A C++ text, and the same text without comments and strings.

    Attributes:
        text: the text.
        code: the text with blanks for comments and strings; all positions stay the same.
        plain: the text with blanks for comments.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = blanked(text)
        self.plain = blanked(text, "comment")

    def end(self, start: int) -> int:
        """The end of a bracketed part.

        Args:
            start: the position of the opening bracket.

        Returns:
            The position behind the closing bracket; -1 if there is none.
        """
        close = closing(self.code, start)
        return -1 if close is None else close + 1

    def parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """Split a part of the text at commas outside of brackets, including `<>`.

        Args:
            start: the start of the part.
            end: its end.

        Returns:
            Start and end of each, without blanks around it; empty for a part of blanks.
        """
        found = []
        depth = 0
        first = start
        for at in range(start, end):
            sign = self.code[at]
            if sign in "([{<":
                depth += 1
            elif sign in ")]}" or (sign == ">" and self.code[at - 1] != "-"):
                depth -= 1
            elif sign == "," and depth == 0:
                found.append((first, at))
                first = at + 1
        found.append((first, end))
        return [span for span in (stripped(self.plain, *part) for part in found) if span[0] < span[1]]

    def statements(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The statements of a block, without directives: the start of each, and the position of its `;`."""
        blank = re.compile(r"^[ \t]*#(?:[^\n\\]|\\[\s\S])*", re.MULTILINE)
        code = blank.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.code[start:end])
        depth, first = 0, 0
        for at, sign in enumerate(code):
            depth += (sign in "([{") - (sign in ")]}")
            if sign == ";" and depth == 0:
                inside = code[first:at]
                yield start + first + len(inside) - len(inside.lstrip()), start + at
                first = at + 1


def string_of(text: str) -> str | None:
    """The value of a string literal, or of several adjacent ones; None for any other text."""
    value, at = "", 0
    while found := _STRING.match(text, at):
        try:
            value += found["raw"] if found["raw"] is not None else ast.literal_eval(found["plain"])
        except (SyntaxError, ValueError):
            return None
        at = found.end()
    return value if at and not text[at:].strip() else None
