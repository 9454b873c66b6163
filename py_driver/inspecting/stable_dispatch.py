"""Dispatch macros of torch, rewritten for its stable ABI."""

from __future__ import annotations

import re
from typing import Final

from py_driver.plan.cpp_text import arguments, closing, masked

_SETS: Final = {
    "FLOATING_TYPES": ("AT_FLOATING_TYPES",),
    "ALL_TYPES": ("AT_ALL_TYPES",),
    "INTEGRAL_TYPES": ("AT_INTEGRAL_TYPES",),
    "COMPLEX_TYPES": ("AT_COMPLEX_TYPES",),
    "ALL_TYPES_AND_COMPLEX": ("AT_ALL_TYPES_AND_COMPLEX",),
    "FLOATING_AND_COMPLEX_TYPES": ("AT_FLOATING_TYPES", "AT_COMPLEX_TYPES"),
}
"""Macros of torch/headeronly/core/Dispatch_v2.h in 2.10, by the middle of the name of ATen/Dispatch.h's macro."""

_MACRO: Final = re.compile(
    rf"(?<!\w)AT_DISPATCH_({'|'.join(sorted(_SETS, key=len, reverse=True))})(?:_AND(\d?|_HALF))?\s*\("
)
_LEAST: Final = 3
"""A type, a name and a body."""


def rewrite_dispatch(text: str) -> str:
    """A text with dispatch macros rewritten to `THO_DISPATCH_V2`, inner ones first."""
    plain = masked(text)
    for found in reversed([*_MACRO.finditer(plain)]):
        close = closing(plain, found.end() - 1)
        more = found[2] or ""
        count = int(more) if more.isdigit() else int(found[0].rstrip("( ").endswith("_AND"))
        # The body is the rest, including its commas.
        ranges = _first(plain, found.end(), close, count + _LEAST) if close is not None else None
        if close is None or ranges is None:
            continue
        parts = [text[slice(*argument)] for argument in ranges]
        types = [*parts[:count], *(["torch::headeronly::ScalarType::Half"] if more == "_HALF" else [])]
        sets = [f"AT_EXPAND({name})" for name in _SETS[found[1]]]
        kind, name, body = parts[count:]
        # The macros of 2.10 pass the body on without AT_WRAP: a comma would end it.
        body = body if body.startswith("(") else f"({body})"
        new = f"THO_DISPATCH_V2({kind}, {name}, AT_WRAP({body}), {', '.join([*sets, *types])})"
        return rewrite_dispatch(text[: found.start()] + new + text[close + 1 :])
    return text


def _first(plain: str, start: int, end: int, count: int) -> list[tuple[int, int]] | None:
    """The ranges of `count` arguments, the last of which has the rest; None if there are fewer."""
    found = []
    for _ in range(count - 1):
        depth, index = 0, start
        while index < end and (depth or plain[index] != ","):
            depth += (plain[index] in "([{") - (plain[index] in ")]}")
            index += 1
        parts = arguments(plain, start, index)
        if index == end or not parts:
            return None
        found.append(parts[0])
        start = index + 1
    rest = plain[start:end]
    return [*found, (start + len(rest) - len(rest.lstrip()), end - len(rest) + len(rest.rstrip()))]
