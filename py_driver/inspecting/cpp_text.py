"""C++ as text: comments and literals masked, brackets matched, arguments and operands found."""

from __future__ import annotations

import re
from typing import Final

_SKIPPED: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<mark>[^\s()\\\"]{0,16})\(.*?\)(?P=mark)\"|\"(?:[^\"\\\n]|\\.)*\""
    r"|(?<![\w'])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSE: Final = {close: opening for opening, close in _OPEN.items()}
_IDENTIFIER_END: Final = re.compile(r"(?:::)?(?:\b[A-Za-z_]\w*\s*::\s*)*\b[A-Za-z_]\w*\Z")
_ENDED: Final = re.compile(r"(?:[>}]|\b(?:if|while|for|switch))$")
_WORDS: Final = {"return", "throw", "case", "else", "co_return", "co_yield", "new", "delete", "sizeof", "if", "while"}


def masked(text: str) -> str:
    """A text of the same length and lines, whose comments and literals are blank; quotes stay."""

    def blank(found: re.Match[str]) -> str:
        body = re.sub(r"[^\r\n]", " ", found[0])
        return f'"{body[1:-1]}"' if found[0].endswith('"') and len(body) > 1 else body

    return _SKIPPED.sub(blank, text)


def closing(plain: str, opening: int) -> int | None:
    """The index of the bracket that closes one; None if brackets do not match.

    Args:
        plain: a masked text.
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
    """The index of the bracket that one closes; None if brackets do not match."""
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

    A comma inside of `<...>` looks like one between arguments: with a `<` before a comma the answer is None, unless
    both are in brackets.

    Args:
        plain: a masked text.
        start: behind the opening bracket.
        end: of the closing bracket.
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
    found = []
    for first, last in zip(bounds, [*commas, end], strict=True):
        part = plain[first:last]
        found.append((first + len(part) - len(part.lstrip()), last - len(part) + len(part.rstrip())))
    return found


def operand_start(plain: str, end: int) -> int | None:
    """Where the postfix expression begins that ends at an index: `a`, `a.b->c(d)`, `(*a)`, `x::f(y)[1]`.

    None where that is not sure: behind a template's `>`, a literal, a cast or a word such as `return`.

    Args:
        plain: a masked text.
        end: behind the expression.
    """
    index = end
    while True:
        while index and plain[index - 1].isspace():
            index -= 1
        if not index:
            return None
        if plain[index - 1] in ")]":
            bracket = opening(plain, index - 1)
            before = plain[:bracket].rstrip()
            if bracket is not None and re.search(r"[\w\])]$", before) and not _is_word(before):
                index = bracket
                continue
            return None if bracket is None or plain[index - 1] == "]" or _ENDED.search(before) else bracket
        name = _IDENTIFIER_END.search(plain[max(0, index - 400) : index])
        if name is None or name[0].split("::")[-1].strip() in _WORDS:
            return None
        index = max(0, index - 400) + name.start()
        before = plain[:index].rstrip()
        if before.endswith("->"):
            index = len(before) - 2
        elif before.endswith(".") and not before.endswith(".."):
            index = len(before) - 1
        else:
            return index


def operand_end(plain: str, start: int) -> int | None:
    """Behind the postfix expression that begins at an index; None where it is not a name with members and calls."""
    found = re.compile(r"\s*(?:::)?[A-Za-z_]\w*(?:\s*::\s*\w+)*").match(plain, start)
    while found:
        end = found.end()
        while end < len(plain) and plain[end] in "([":
            close = closing(plain, end)
            if close is None:
                return None
            end = close + 1
        found = re.compile(r"(?:\.|->)\w+").match(plain, end)
        if not found:
            return None if re.match(r"\s*[<{(+*/%-]", plain[end:]) else end
    return None


def line_of(text: str, index: int) -> tuple[int, int]:
    """The line and the column of an index, from 1."""
    return text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1


def without_comments(text: str) -> str:
    """A text without its comments, e.g. an argument."""
    return _COMMENT.sub("", text).strip()


def _is_word(before: str) -> bool:
    """Whether a text ends with a word of the language, behind which a bracket begins an expression."""
    found = re.search(r"\b([A-Za-z_]\w*)$", before)
    return found is not None and found[1] in {"return", "throw", "case", "co_return", "if", "while", "switch", "for"}
