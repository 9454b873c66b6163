"""What C++ registers with torch, as far as its text says so: the ops of `TORCH_LIBRARY`, and of functions for it.

What a macro or a computed string says is not read, and then nothing is said of what is missing.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from py_driver.plan.includes import blanked, scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.plan.includes import Include

_BLOCK = re.compile(
    r"\b(?:STABLE_)?TORCH_LIBRARY(?P<kind>_IMPL|_FRAGMENT)?(?:_EXPAND)?\s*\((?P<arguments>[^{};]*)\)\s*\{"
    r"|\b(?:\w+\s*::\s*)*Library\s*&\s*(?P<parameter>\w+)\s*[,)][^{};]*\{"
)
_CALL = re.compile(r"\s*(?:\.|->)\s*(?P<what>def|impl)\s*\(")
_ANY_CALL = re.compile(r"(?:\.|->)\s*(?:def|impl)\s*\(")
_STRING = re.compile(
    r'\s*(?:R"(?P<mark>[^\s()\\"]{0,16})\((?P<raw>[\s\S]*?)\)(?P=mark)"|"(?P<plain>(?:[^"\\\n]|\\[\s\S])*)")'
)
_PLAIN = re.compile(r"\\(?P<escaped>[\s\S])|(?P<other>[^\\])")
_ESCAPED = {"\n": "", "n": "\n", "t": "\t"}
_KEY = re.compile(r"(?:(?:at|c10|torch)\s*::\s*)?(?:DispatchKey\s*::\s*|DeviceType\s*::\s*|k)(?P<key>[A-Z]\w*)")
_ANY = "*"
"""The key of a call that stands in blocks of several."""

_FOREIGN = ("aten", "prim", "prims", "quantized", "_", "torchvision", "torchaudio")


class Registration(NamedTuple):
    """A call of `def` or `impl`.

    Attributes:
        what: `def` or `impl`.
        start: where the call's first argument begins in the file.
        text: that argument, if it is a string.
        places: where each character of `text` stands in the file, and where it ends.
        alone: whether there is no other argument.
        key: the dispatch key that it is for, without namespaces; empty for all, or for one that is not known.
        seen: what its `#if`s say.
    """

    what: str
    start: int
    text: str | None
    places: tuple[int, ...]
    alone: bool
    key: str
    seen: Include


class Registrations(NamedTuple):
    """What a file registers.

    Attributes:
        found: in its order.
        whole: whether these are all that it may register.
    """

    found: tuple[Registration, ...] = ()
    whole: bool = True


class _Call(NamedTuple):
    """A call: its name, its arguments, the dispatch key of its block, and whether that is for ops of others."""

    what: str
    start: int
    end: int
    key: str
    foreign: bool


def registrations(text: str) -> Registrations:
    """What a source or header registers.

    Args:
        text: of it.
    """
    if "TORCH_LIBRARY" not in text and "Library" not in text:
        return Registrations()
    plain, code = blanked(text, "comment"), blanked(text)
    calls: dict[int, _Call] = {}
    for call in (call for block in _BLOCK.finditer(code) for call in _calls(code, block)):
        other = calls.get(call.start, call)  # where `#if`s choose between two heads of a block
        calls[call.start] = call if other.key == call.key else call._replace(key=_ANY)
    places = _conditions(text, calls)
    found, whole = [], len(calls) == len(_ANY_CALL.findall(code))
    for call in (one for one in calls.values() if not one.foreign):
        string, where, end = _string(plain, call.start)
        rest = plain[end : call.end].strip()
        if rest and not rest.startswith(","):
            string = None
        whole = whole and string is not None and call.start in places
        if call.start in places:
            key = call.key.strip(_ANY) or (_key(rest.removeprefix(",")) if call.what == "impl" else "")
            found.append(Registration(call.what, call.start, string, where, not rest, key, places[call.start]))
    return Registrations(tuple(found), whole=whole)


def _calls(code: str, block: re.Match[str]) -> Iterator[_Call]:
    """The calls of a block, or of the body of a function, in a text without comments and strings."""
    arguments = [one.strip() for one in (block["arguments"] or "").split(",")]
    module = block["parameter"] or arguments[-1]
    if not re.fullmatch(r"\w+", module):
        return
    key = arguments[-2] if block["kind"] == "_IMPL" and len(arguments) > 2 else ""  # noqa: PLR2004  (name, key, module)
    end = _closing(code, block.end() - 1, "{", "}")
    for name in re.compile(rf"\b{module}\b").finditer(code, block.end(), end):
        at = name.end()
        while call := _CALL.match(code, at):
            at = _closing(code, call.end() - 1, "(", ")")
            yield _Call(call["what"], call.end(), at, key, arguments[0] in _FOREIGN)
            at += 1


def _closing(code: str, start: int, opening: str, closing: str) -> int:
    """Where the bracket that opens at a place is closed; the end of the text if it is not."""
    depth = 0
    for found in re.compile(f"[{re.escape(opening + closing)}]").finditer(code, start):
        depth += 1 if found[0] == opening else -1
        if depth == 0:
            return found.start()
    return len(code)


def _conditions(text: str, calls: dict[int, _Call]) -> dict[int, Include]:
    """What the `#if`s around calls say, as those around an include in the line before."""
    lines = sorted({text.rfind("\n", 0, start) + 1 for start in calls})
    parts = [text[: lines[0]] if lines else text]
    parts += (f"#include <{start}>\n{text[start:end]}" for start, end in pairwise([*lines, len(text)]))
    seen = {one.path: one for one in scan("".join(parts))}
    found = {start: seen.get(str(text.rfind("\n", 0, start) + 1)) for start in calls}
    return {start: include for start, include in found.items() if include is not None}


def _string(plain: str, start: int) -> tuple[str | None, tuple[int, ...], int]:
    """The string literals at a place, as one text; where each of its characters stands; and where they end."""
    text, places, at = "", list[int](), start
    while literal := _STRING.match(plain, at):
        at = literal.end()
        if literal["raw"] is not None:
            text += literal["raw"]
            places += range(*literal.span("raw"))
            continue
        for part in _PLAIN.finditer(plain, *literal.span("plain")):
            shown = part["other"] or _ESCAPED.get(part["escaped"], part["escaped"])
            text += shown
            places += [part.start()] * len(shown)
    return (text, (*places, at - 1), at) if at > start else (None, (), start)


def _key(arguments: str) -> str:
    """The dispatch key that the arguments of `impl` behind its name begin with; empty without one that is known."""
    first, comma, _ = arguments.partition(",")
    found = _KEY.fullmatch(first.strip())
    return found["key"] if found and comma else ""
