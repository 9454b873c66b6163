"""C++ as text: masked comments and literals, matching brackets, arguments; without a preprocessor.

Tokens are those of [lex.pptoken] and [lex.string] in the C++ standard: a line continued by a backslash goes on in a
comment and in a string, a raw string begins where no name ends, and a quote between digits separates them.
"""

from __future__ import annotations

import re
from typing import Final

# Each alternative begins with a character: Python's regular expressions then try few of them at a position.
_NUMBER: Final = r"\d(?<![\w'].)[\w.]*+(?:'[\w.]++)++"
_RAW: Final = (
    r"[uULR](?<!\w.)(?:(?<=R)|(?:(?<=u)8?|(?<=[UL]))R)"
    r'"(?P<mark>[^\s()\\"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z)'
)
_STRING: Final = r'"(?:[^"\\\n]|\\(?:\r\n|[\s\S]))*+"?'
_CHARACTER: Final = r"'(?:[^'\\\n]|\\.)++'"
_LINE: Final = r"/(?:[^\\\n]|\\(?:\r?\n)?)*+"
_BLOCK: Final = r"\*[\s\S]*?(?:\*/|\Z)"

# An unterminated token extends to the end of the text or line: each character is matched once.
_SKIPPED: Final = re.compile(
    rf"(?P<raw>{_RAW})|(?P<comment>/(?:{_LINE}|{_BLOCK}))|(?P<string>{_STRING})|(?P<character>{_CHARACTER})|{_NUMBER}"
)
_HIDING: Final = re.compile(
    rf"""(?:[^\w"'/]++|{_NUMBER}|(?!(?:u8|[uUL])?R"[^\s()\\"]{{0,16}}\()\w++|{_STRING}|{_CHARACTER}|'"""
    rf"|//[^\n]*+(?<!\\)(?<!\\\r)|/(?![/*]))*+(?P<hidden>{_RAW}|/(?:{_LINE}|{_BLOCK}))"
)
"""The text up to and including the next raw string or comment of several lines, as `_SKIPPED` matches them."""

_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSE: Final = {close: opening for opening, close in _OPEN.items()}
_ALL: Final = ("raw", "comment", "string", "character")


def blanked(text: str, *kinds: str) -> str:
    """The text with blanks for kinds of tokens; all other characters keep their positions.

    Args:
        text: the text of a source or header.
        kinds: `raw`, `comment`, `string` and `character`; all of them if none is named.
    """
    wanted = kinds or _ALL

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0]) if found.lastgroup and any(found[kind] for kind in wanted) else found[0]

    return _SKIPPED.sub(blank, text)


def masked(text: str) -> str:
    """The text with blanks for comments and between quotes; the quotes stay, so a literal does not become blank."""

    def blank(found: re.Match[str]) -> str:
        body = re.sub(r"[^\r\n]", " ", found[0])
        if found["comment"]:
            return body
        quote = "'" if found["character"] else '"'
        if not (found["raw"] or found["string"] or found["character"]) or len(body) <= 1:
            return found[0]
        return f"{quote}{body[1:-1]}{quote if found[0].endswith(quote) else body[-1]}"

    return _SKIPPED.sub(blank, text)


def code_of(text: str) -> str:
    """The text with blanks for comments, strings and characters, including the names of quoted `#include`s."""
    return blanked(text)


def without_hidden(text: str, end: int) -> str:
    """The text up to an index, with blanks for raw strings and comments of several lines: they hide directives."""
    parts, at = [], 0
    while found := _HIDING.match(text, at, end):
        parts.append(text[at : found.start("hidden")])
        parts.append(re.sub(r"[^\n]", " ", found["hidden"]))
        at = found.end()
    return "".join([*parts, text[at:end]])


def closing(plain: str, opening: int) -> int | None:
    """The index of the bracket that closes another; None if brackets do not match.

    Args:
        plain: a text without literals and comments.
        opening: the index of the opening bracket.
    """
    stack: list[str] = []
    for index in range(opening, len(plain)):
        letter = plain[index]
        if letter in _OPEN:
            stack.append(letter)
        elif letter in _CLOSE:
            if not stack or stack.pop() != _CLOSE[letter]:
                return None
            if not stack:
                return index
    return None


def opening(plain: str, close: int) -> int | None:
    """The index of the bracket that a bracket closes; None if brackets do not match.

    Args:
        plain: a text without literals and comments.
        close: the index of the closing bracket.
    """
    stack: list[str] = []
    for index in range(close, -1, -1):
        letter = plain[index]
        if letter in _CLOSE:
            stack.append(letter)
        elif letter in _OPEN:
            if not stack or stack.pop() != _OPEN[letter]:
                return None
            if not stack:
                return index
    return None


def arguments(plain: str, start: int, end: int) -> list[tuple[int, int]] | None:
    """The ranges of arguments between two brackets, without the space around; None if commas cannot be told apart.

    A comma inside of `<...>` looks like a comma between arguments: with a `<` before a comma the result is None, unless
    both are in brackets.

    Args:
        plain: a masked text.
        start: the index behind the opening bracket.
        end: the index of the closing bracket.
    """
    commas, depth, angles = [], 0, False
    for index in range(start, end):
        letter = plain[index]
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif not depth and letter == "<":
            angles = True
        elif not depth and letter == ",":
            if angles:
                return None
            commas.append(index)
    if not plain[start:end].strip():
        return []
    bounds = [start, *(comma + 1 for comma in commas)]
    return [stripped(plain, first, last) for first, last in zip(bounds, [*commas, end], strict=True)]


def stripped(plain: str, start: int, end: int) -> tuple[int, int]:
    """A range without blanks at its ends."""
    part = plain[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def line_of(text: str, index: int) -> tuple[int, int]:
    """The line and the column of an index, from 1."""
    return text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1
