"""The ops that C++ registers with torch, as far as its text shows: in `TORCH_LIBRARY`, and in functions for it.

Macros and computed strings are not evaluated; a text with them leads to no message about missing ops.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from py_driver.plan.cpp_text import blanked
from py_driver.plan.includes import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.plan.includes import Include

_BLOCK = re.compile(
    r"\b(?:STABLE_)?TORCH_LIBRARY(?P<kind>_IMPL|_FRAGMENT)?(?P<expanded>_EXPAND)?\s*\((?P<arguments>[^{};]*)\)\s*\{"
    r"|(?<![\w:])(?:::\s*)?(?P<scope>(?:\w+\s*::\s*)*+)Library\s*&\s*(?P<parameter>\w+)\s*[,)][^{};]*\{"
)
_CALL = re.compile(r"\s*(?:\.|->)\s*(?P<what>def|impl)\s*\(")
_ANY_CALL = re.compile(r"(?:\.|->)\s*(?:def|impl)\s*\(")
_STRING = re.compile(
    r'\s*(?:R"(?P<mark>[^\s()\\"]{0,16})\((?P<raw>[\s\S]*?)\)(?P=mark)"|"(?P<plain>(?:[^"\\\n]|\\[\s\S])*)")'
)
_OF_TORCH = re.compile(r"\busing\s+(?:namespace\s+torch|torch\s*::\s*Library)\s*;")
"""Text that makes a bare `Library` torch's."""

_FUNCTION = re.compile(r"\b(?P<function>\w+)\s*\([^(){};]*\Z")
_LEAVES = re.compile(r"\b(?:return|goto|throw)\b")
DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?:define[ \t]+(?P<macro>\w+)(?P<body>(?:[^\n\\]|\\[\s\S])*)|(?:[^\n\\]|\\[\s\S])*)", re.MULTILINE
)
"""A directive in a text without comments, with the lines that `\\` continues."""

_PLAIN = re.compile(r"\\(?P<escaped>[\s\S])|(?P<other>[^\\])")
_ESCAPED = {"\n": "", "n": "\n", "t": "\t", **{sign: sign for sign in "\"'?\\"}}
"""The supported escapes; a string with another escape is not read."""

_KEY = re.compile(r"(?:(?:at|c10|torch)\s*::\s*)?(?:DispatchKey\s*::\s*|DeviceType\s*::\s*|k)(?P<key>[A-Z]\w*)")
_ANY = "*"
"""The key of a call in blocks for several keys."""

_FOREIGN = ("aten", "prim", "prims", "quantized", "_", "torchvision", "torchaudio")


class Registration(NamedTuple):
    """A call of `def` or `impl`, or a block of TORCH_LIBRARY itself.

    Attributes:
        what: `def`, `impl` or `library`; for the last the namespace is the first argument.
        start: the start of the first argument in the file.
        text: the first argument, if it is a string.
        places: the position in the file of each character of `text`, and of its end.
        alone: whether there is no other argument.
        key: its dispatch key without namespaces; empty for all keys, or for an unknown one.
        seen: the conditions of its `#if`s.
        namespace: the namespace of its block, unless that is a macro other than TORCH_EXTENSION_NAME; else empty.
        kind: `_IMPL` or `_FRAGMENT` for a block of that kind.
        certain: whether it always runs if it is compiled: no branch, loop, lambda or macro encloses it.
    """

    what: str
    start: int
    text: str | None
    places: tuple[int, ...]
    alone: bool
    key: str
    seen: Include
    namespace: str = ""
    kind: str = ""
    certain: bool = False


class Registrations(NamedTuple):
    """The registrations of a file.

    Attributes:
        found: the registrations, in order.
        whole: whether the file can register nothing else.
    """

    found: tuple[Registration, ...] = ()
    whole: bool = True


class _Call(NamedTuple):
    """A call or block, see `Registration`; the end of its arguments, and whether it is for other libraries' ops."""

    what: str
    start: int
    end: int
    key: str
    foreign: bool
    namespace: str
    kind: str
    certain: bool


def registrations(text: str) -> Registrations:
    """The registrations of a source or header.

    Args:
        text: its text.
    """
    if "TORCH_LIBRARY" not in text and "Library" not in text:
        return Registrations()
    plain, code = blanked(text, "comment"), blanked(text)
    calls: dict[int, _Call] = {}
    for call in _calls(code):
        other = calls.get(call.start, call)  # several heads of a block
        key = call.key if other.key == call.key else _ANY
        calls[call.start] = call._replace(key=key, certain=call.certain and other == call)
    places = _conditions(text, calls)
    found = []
    complete = sum(call.what != "library" for call in calls.values()) == len(_ANY_CALL.findall(code))
    for call in (candidate for candidate in calls.values() if not candidate.foreign):
        string, where, end = _string(plain, call.start)
        rest = plain[end : call.end].strip()
        if rest and not rest.startswith(","):
            string = None
        if call.what == "library":
            string, where, rest = call.namespace, tuple(range(call.start, call.end + 1)), ""
        complete = complete and string is not None and call.start in places
        if call.start in places:
            key = call.key.strip(_ANY) or (_key(rest.removeprefix(",")) if call.what == "impl" else "")
            seen = places[call.start]
            registration = Registration(call.what, call.start, string, where, not rest, key, seen, *call[-3:])
            found.append(registration)
    return Registrations(tuple(found), whole=complete)


def without_directives(code: str) -> str:
    """A text without comments, with blanks for its directives and the bodies of macros."""
    return DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)


def _calls(code: str) -> Iterator[_Call]:
    """The calls of all blocks and functions, and the blocks, in a text without comments and strings."""
    visible = without_directives(code)
    macros = {found["macro"] for found in DIRECTIVE.finditer(code)}
    blocks = [match for match in _BLOCK.finditer(code) if match["parameter"] is None]
    bodies = [(match.end(), _closing(code, match.end() - 1, "{", "}")) for match in blocks]
    for block in blocks:
        arguments = [part.strip() for part in block["arguments"].split(",")]
        name, foreign = arguments[0], arguments[0] in _FOREIGN
        exact = name == "TORCH_EXTENSION_NAME" or not (name.isupper() or name in macros)
        certain = visible[block.start()] != " "
        namespace = name if exact else ""
        if name == "TORCH_EXTENSION_NAME" and not (block["kind"] or block["expanded"]):
            namespace = f'"{name}"'  # which TORCH_LIBRARY does not expand
        if not block["kind"]:
            start = block.start("arguments")
            yield _Call("library", start, start + len(name), "", foreign, namespace, "", certain)
        key = arguments[-2] if block["kind"] == "_IMPL" and len(arguments) > 2 else ""  # noqa: PLR2004  (name, key, module)
        pattern = _Call("", 0, 0, key, foreign, namespace, block["kind"] or "", certain)
        yield from _calls_of(arguments[-1], code, visible, block.end(), pattern)
    for block in _BLOCK.finditer(code):
        scope = re.sub(r"\s", "", block["scope"] or "")
        if block["parameter"] and (scope == "torch::" or (not scope and _OF_TORCH.search(visible))):
            function = _FUNCTION.search(code, max(0, block.start() - 200), block.start())
            called = re.compile(rf"\b{function['function']}\s*\(" if function else r"\Z.")
            certain = visible[block.start()] != " " and any(
                _is_straight(visible, start, call.start())
                for start, end in bodies
                for call in called.finditer(visible, start, end)
            )
            pattern = _Call("", 0, 0, "", foreign=False, namespace="", kind="", certain=certain)
            yield from _calls_of(block["parameter"], code, visible, block.end(), pattern)


def _calls_of(module: str, code: str, visible: str, start: int, pattern: _Call) -> Iterator[_Call]:
    """The calls on a module in a body."""
    if not re.fullmatch(r"\w+", module):
        return
    end = _closing(code, start - 1, "{", "}")
    for name in re.compile(rf"\b{module}\b").finditer(code, start, end):
        certain = pattern.certain and _is_straight(visible, start, name.start())
        at = name.end()
        while call := _CALL.match(code, at):
            at = _closing(code, call.end() - 1, "(", ")")
            yield pattern._replace(what=call["what"], start=call.end(), end=at, certain=certain)
            at += 1


def _is_straight(visible: str, start: int, at: int) -> bool:
    """Whether a statement of a body certainly runs."""
    before = visible[start:at]
    if _LEAVES.search(before):  # a lambda among the arguments of an earlier call may return
        while before != (shorter := re.sub(r"\([^()]*\)", "", before)):
            before = shorter
    balanced = all(before.count(opening) == before.count(other) for opening, other in (("{", "}"), ("(", ")")))
    return balanced and before.rstrip()[-1:] in {"", ";", "}"} and visible[at] != " " and not _LEAVES.search(before)


def _closing(code: str, start: int, opening: str, closing: str) -> int:
    """The index of the matching bracket; the end of the text if there is none."""
    depth = 0
    for found in re.compile(f"[{re.escape(opening + closing)}]").finditer(code, start):
        depth += 1 if found[0] == opening else -1
        if depth == 0:
            return found.start()
    return len(code)


def _conditions(text: str, calls: dict[int, _Call]) -> dict[int, Include]:
    """The conditions of the `#if`s around calls, as those of an include in the line before."""
    lines = sorted({text.rfind("\n", 0, start) + 1 for start in calls})
    parts = [text[: lines[0]] if lines else text]
    parts += (f"#include <{start}>\n{text[start:end]}" for start, end in pairwise([*lines, len(text)]))
    seen = {include.path: include for include in scan("".join(parts))}
    found = {start: seen.get(str(text.rfind("\n", 0, start) + 1)) for start in calls}
    return {start: include for start, include in found.items() if include is not None}


def _string(plain: str, start: int) -> tuple[str | None, tuple[int, ...], int]:
    """The adjacent string literals at an index as one text, the position of each character, and their end."""
    text, places, at = "", list[int](), start
    while literal := _STRING.match(plain, at):
        at = literal.end()
        if literal["raw"] is not None:
            text += literal["raw"]
            places += range(*literal.span("raw"))
            continue
        for part in _PLAIN.finditer(plain, *literal.span("plain")):
            shown = part["other"] or _ESCAPED.get(part["escaped"])
            if shown is None:
                return None, (), start
            text += shown
            places += [part.start()] * len(shown)
    return (text, (*places, at - 1), at) if at > start else (None, (), start)


def _key(arguments: str) -> str:
    """The dispatch key at the start of `impl`'s arguments behind the name; empty without a known key."""
    first, comma, _ = arguments.partition(",")
    found = _KEY.fullmatch(first.strip())
    return found["key"] if found and comma else ""
