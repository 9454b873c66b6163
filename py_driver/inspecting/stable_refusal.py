"""Sources that are not rewritten for torch's stable ABI, since their meaning does not follow from their text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.inspecting.stable_uses import equivalents
from py_driver.plan.cpp_text import line_of, masked

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMESPACE: Final = re.compile(
    r"\busing\s+namespace\s+(?:::)?(?:at|c10|torch)\b|\bnamespace\s+(?:\w+\s*=\s*)?(?:at|c10|torch)\b"
)
_PASTING: Final = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\\r?\n|\\)*##(?:[^\n\\]|\\\r?\n|\\)*", re.MULTILINE)
_MACRO: Final = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_GLUE: Final = r"(?:\s|\\\r?\n)*##(?:\s|\\\r?\n)*"
_OF_TORCH: Final = re.compile(
    rf"\b(?:(?:at|c10|torch)(?:::\w+)*::\w*|(?:TORCH|AT|C10)_\w*){_GLUE}|{_GLUE}(?:at|c10|torch)::|{_GLUE}::|::{_GLUE}"
)
"""A name of torch that `##` produces."""

_REDEFINED: Final = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_IN_MACRO: Final = re.compile(
    r"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\\r?\n|\\)*?\b(?:STABLE_)?(TORCH_LIBRARY(?:_\w+)?)\s*\(", re.MULTILINE
)
_CONTINUED: Final = re.compile(r"//[^\n]*\\\r?\n")


def refusal(text: str, own: frozenset[str]) -> str:
    """Why a text cannot be understood; empty if it can.

    Args:
        text: a source that uses torch.
        own: macros that the project defines.
    """
    return next(_reasons(text, own), "")


def _reasons(text: str, own: frozenset[str]) -> Iterator[str]:
    plain = masked(text)
    if found := _NAMESPACE.search(plain):
        yield f"line {line_of(text, found.start())[0]}: `{' '.join(found[0].split())}` hides which names are torch's"
    yield from _of_macros(text, plain, own)
    if found := _CONTINUED.search(text):
        yield f"line {line_of(text, found.start())[0]}: a comment goes on in the next line"
    for opening, close in (("(", ")"), ("[", "]")):
        if plain.count(opening) != plain.count(close):
            yield f"`{opening}` and `{close}` are not balanced"


def _of_macros(text: str, plain: str, own: frozenset[str]) -> Iterator[str]:
    """The reasons why macros hide the meaning of a text."""
    for pasting in _PASTING.finditer(text):
        if _OF_TORCH.search(masked(pasting[0])):
            yield f"line {line_of(text, pasting.start())[0]}: a macro pastes names of torch"
    for macro in _MACRO.finditer(plain):
        if macro[0] in own and macro[0] in equivalents():
            yield f"line {line_of(text, macro.start())[0]}: the project redefines `{macro[0]}`"
    for definition in _REDEFINED.finditer(plain):
        if definition[1] in equivalents():
            yield f"line {line_of(text, definition.start(1))[0]}: `{definition[1]}` is redefined"
    if found := _IN_MACRO.search(plain):
        yield f"line {line_of(text, found.start(1))[0]}: a macro has a {found[1]}"
