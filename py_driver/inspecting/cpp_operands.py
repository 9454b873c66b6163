"""Calls and operands in C++ text: the start and end of a method's operand, and the arguments of calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.plan.cpp_text import arguments, closing, masked, opening

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDENTIFIER_END: Final = re.compile(r"(?:::)?(?:\b[A-Za-z_]\w*\s*::\s*)*\b[A-Za-z_]\w*\Z")
_ENDED: Final = re.compile(r"(?:[>}]|\b(?:if|while|for|switch))$")
_WORDS: Final = {
    "return", "throw", "case", "else", "co_return", "co_yield", "new", "delete", "sizeof", "if", "while", "this",
}  # fmt: skip
_DIRECTIVE: Final = re.compile(r"[ \t]*#(?![ \t]*define\b)")
_LONGEST: Final = 400


def operand_start(plain: str, end: int) -> int | None:
    """The start of the postfix expression that ends at an index: `a`, `a.b->c(d)`, `(*a)`, `x::f(y)[1]`.

    None if it is uncertain: behind a template's `>`, a literal, a cast, a directive, `this` or a word such as
    `return`.

    Args:
        plain: a masked text.
        end: the index behind the expression.
    """
    index = end
    while True:
        while index and plain[index - 1].isspace():
            index -= 1
        if not index or _DIRECTIVE.match(plain[plain.rfind("\n", 0, index) + 1 : index]):
            return None
        if plain[index - 1] in ")]":
            bracket = opening(plain, index - 1)
            before = plain[:bracket].rstrip()
            if bracket is not None and re.search(r"[\w\])]$", before) and not _is_word(before):
                index = bracket
                continue
            return None if bracket is None or plain[index - 1] == "]" or _ENDED.search(before) else bracket
        name = _IDENTIFIER_END.search(plain[max(0, index - _LONGEST) : index])
        if name is None or name[0].split("::")[-1].strip() in _WORDS:
            return None
        index = max(0, index - _LONGEST) + name.start()
        before = plain[:index].rstrip()
        if name[0].startswith("::") and before.endswith(">"):
            return None
        if before.endswith("->"):
            index = len(before) - 2
        elif before.endswith(".") and not before.endswith(".."):
            index = len(before) - 1
        else:
            return index


def operand_end(plain: str, start: int) -> int | None:
    """The end of the postfix expression that starts at an index; None if it is not a name with members and calls."""
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


def calls(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int, list[str]]]:
    """The calls whose name and bracket a pattern matches, last first, with the closing bracket and the arguments."""
    plain = masked(text)
    for found in reversed([*pattern.finditer(plain)]):
        close = closing(plain, found.end() - 1)
        ranges = arguments(plain, found.end(), close) if close is not None else None
        if close is not None and ranges is not None:
            yield found, close, [text[slice(*argument)] for argument in ranges]


def _is_word(before: str) -> bool:
    """Whether a text ends with a keyword, behind which a bracket begins an expression."""
    found = re.search(r"\b([A-Za-z_]\w*)$", before)
    return found is not None and found[1] in {"return", "throw", "case", "co_return", "if", "while", "switch", "for"}
