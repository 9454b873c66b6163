"""Uses of torch's C++ API in sources, with their equivalents in its stable ABI and the first torch that has them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import tomli

from py_driver.errors import Span
from py_driver.plan.cpp_text import masked
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME: Final = re.compile(r"(?<![\w:])(?:::\s*)?((?:at|c10|torch)(?:\s*::\s*\w+)+)")
_MACRO: Final = re.compile(
    r"\b(TORCH_CHECK\w*|TORCH_INTERNAL_ASSERT\w*|TORCH_WARN\w*|AT_ASSERTM?|TORCH_LIBRARY(?:_\w+)?|AT_DISPATCH_\w+|(?:AT|C10)_CUDA_\w+|PYBIND11_MODULE)\b"
)
_TEMPLATE: Final = r"<(?:[^<>;()]|<(?:[^<>;()]|<[^<>;()]*>)*>)*>"
_METHOD: Final = re.compile(rf"(?:\.|->)\s*(?:template\s+)?(\w+)\s*({_TEMPLATE})?\s*\(\s*(\)?)")
_TENSORS: Final = re.compile(r"\b(?:at|torch|c10)\s*::|\bTensor\b")
_OPENED: Final = re.compile(r"\busing\s+namespace\s+(?:::)?((?:at|c10|torch)\b(?:\s*::\s*\w+)*)\s*;")
_TAKEN: Final = re.compile(r"\busing\s+(?:::)?((?:at|c10|torch)(?:\s*::\s*\w+)*\s*::\s*(\w+))\s*;")
_ALIAS: Final = re.compile(r"\bnamespace\s+(\w+)\s*=\s*(?:::)?((?:at|c10|torch)\b(?:\s*::\s*\w+)*)\s*;")
_TYPE_ALIAS: Final = re.compile(r"\busing\s+(\w+)\s*=\s*(?:::)?((?:at|c10|torch)(?:\s*::\s*\w+)+)\s*;")
_WORD: Final = re.compile(r"(?<![\w:.>])[A-Za-z_]\w*(?:\s*::\s*\w+)*(?!\w)")
_CONDITION: Final = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(?P<asked>(?:[^\n\\]|\\\r?\n|\\)*)", re.MULTILINE)
_DEFINED: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_OF_HEADERS: Final = re.compile(r"\b(?:TORCH_VERSION(?!_\d)\w*|(?:AT|C10|CAFFE2)_\w+)")
_ASKED: Final = "#if "
_OPAQUE: Final = "::Tensor"
_STABLE: Final = ("torch::stable", "torch::headeronly")


class Equivalent(NamedTuple):
    """The equivalent of a use in the stable ABI.

    Attributes:
        name: the name of the use: `at::Tensor`, `TORCH_CHECK`, `.numel` for a method of a tensor.
        stable: what to write instead.
        header: the header that declares it.
        since: the first torch that has it, `2.10`; empty if no release has.
        fix: whether replacing the name is enough.
        arguments: `none` or `some` if it applies only to calls of a method without or with arguments; else empty.
        calls: its form with 0, 1, 2... arguments; empty where it has none.
    """

    name: str
    stable: str
    header: str
    since: str
    fix: bool
    arguments: str = ""
    calls: tuple[str, ...] = ()


class Use(NamedTuple):
    """A use in a source.

    Attributes:
        name: as in `Equivalent`.
        span: its position.
        equivalent: its equivalent; None if none is known, or no release has it.
    """

    name: str
    span: Span
    equivalent: Equivalent | None

    @property
    def instead(self) -> str:
        """The usual alternative without an equivalent; empty if unknown."""
        name = self.name
        beginnings = [
            start for start in alternatives() if name == start or (start[-1] in ".:_" and name.startswith(start))
        ]
        parts = name.split("::")
        beginnings += [start for end in range(1, len(parts)) if (start := "::".join(parts[:end])) in alternatives()]
        return alternatives()[max(beginnings, key=len)] if beginnings else ""


@cache
def alternatives() -> Mapping[str, str]:
    """The usual alternatives to names without an equivalent, by prefix of the names."""
    rows = tomli.loads(resource("stable_abi.toml"))["none"]
    return {name: row["instead"] for row in rows for name in row["names"]}


@cache
def equivalents() -> Mapping[str, Equivalent]:
    """The known equivalents, by the names of the uses."""
    rows = tomli.loads(resource("stable_abi.toml"))["use"]
    return {
        row["name"]: Equivalent(
            **{key: value for key, value in row.items() if key not in {"check", "calls"}},
            calls=tuple(row.get("calls", ())),
        )
        for row in rows
    }


@cache
def tensor_methods() -> frozenset[str]:
    """The names of the methods of torch's tensors, except names that other classes often have."""
    lines = resource("tensor_methods.txt").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def macros_of(text: str) -> frozenset[str]:
    """The macros that a source defines."""
    return frozenset(_DEFINED.findall(masked(text)))


def stable_uses(text: str, file: str, *, ported: bool = False, own: frozenset[str] = frozenset()) -> Iterator[Use]:
    """The uses of torch's C++ API in a source, in order, without the stable ABI.

    Names also count if `using` or a namespace alias of this source shortens them. With `using namespace`, names with a
    known equivalent are found, and the directive itself counts, since it may hide others. A method counts by its name
    if tensors have a method of that name, and only in a source that names torch or tensors.

    Args:
        text: the source.
        file: its path for messages.
        ported: whether methods on the stable ABI's tensors count as well, unless those have them.
        own: macros that other sources of the project define, which are not uses, like this source's own.
    """
    plain = masked(text)
    own = own | macros_of(text)
    lines = text.split("\n")
    for at, length, name, row in sorted(_found(plain, own, ported=ported), key=lambda use: use[0]):
        line = plain.count("\n", 0, at)
        column = at - (plain.rfind("\n", 0, at) + 1) + 1
        span = Span(file, line + 1, column, length, lines[line])
        yield Use(name, span, row if row and row.since else None)


def _found(plain: str, own: frozenset[str], *, ported: bool) -> Iterator[tuple[int, int, str, Equivalent | None]]:
    """The uses in a source without comments and strings: position, length, name, and equivalent."""
    known = equivalents()
    for match in (*_NAME.finditer(plain), *_MACRO.finditer(plain)):
        name = _joined(match[1])
        if not name.startswith(_STABLE) and name not in own:
            yield match.start(1), len(match[1]), *_row(name)
    for match in _OPENED.finditer(plain):
        if (name := _joined(match[1])) in {"at", "c10", "torch"} or not name.startswith(_STABLE):
            yield match.start(), len(match[0]), f"using namespace {name}", None
    yield from _shortened(plain)
    yield from _asked(plain, own)
    names = _stable_names(plain)
    foreign = re.sub(r"\btorch\s*::\s*(?:stable|headeronly)\b[\w\s:]*", " ", _without(plain, names))
    if _TENSORS.search(foreign) or (ported and any(space in plain for space in _STABLE)):
        methods = tensor_methods()
        for match in _METHOD.finditer(plain):
            if _of_shape(plain, match.start()):
                continue
            name = f".{match[1]}<>" if match[2] and f".{match[1]}<>" in known else f".{match[1]}"
            row = known.get(name)
            if row and row.arguments and row.arguments != ("none" if match[3] else "some"):
                row = None
            if name in known or match[1] in methods:
                yield match.start(1), len(match[1]), name, row


def _asked(plain: str, own: frozenset[str]) -> Iterator[tuple[int, int, str, None]]:
    """The macros of torch's headers that conditions test: without the header, the other branch would be chosen."""
    for condition in _CONDITION.finditer(plain):
        for match in _OF_HEADERS.finditer(plain, *condition.span("asked")):
            if match[0] not in own:
                yield match.start(), len(match[0]), f"{_ASKED}{match[0]}", None


def _row(name: str) -> tuple[str, Equivalent | None]:
    """The use of a name, and its equivalent: `at::ScalarType::Half` is a use of `at::ScalarType`."""
    known = equivalents()
    parts = name.split("::")
    prefixes = ["::".join(parts[:count]) for count in range(len(parts), 0, -1)]
    use = next((prefix for prefix in prefixes if prefix in known), name)
    # The members of a class of the stable ABI are not those of the other class.
    return (name, None) if use != name and use.endswith(_OPAQUE) else (use, known.get(use))


def _shortened(plain: str) -> Iterator[tuple[int, int, str, Equivalent | None]]:
    """The uses that a `using` or an alias of the source shortens."""
    known = equivalents()
    names = {match[2]: _joined(match[1]) for match in _TAKEN.finditer(plain)}
    names |= {match[1]: _joined(match[2]) for match in (*_ALIAS.finditer(plain), *_TYPE_ALIAS.finditer(plain))}
    opened = [_joined(match[1]) for match in _OPENED.finditer(plain)]
    names = {
        short: name for short, name in names.items() if not f"{name}::".startswith(tuple(f"{own}::" for own in _STABLE))
    }
    if not names and not opened:
        return
    declared = [match.span() for pattern in (_ALIAS, _TAKEN, _TYPE_ALIAS) for match in pattern.finditer(plain)]
    for match in _WORD.finditer(plain):
        if any(start <= match.start() < end for start, end in declared):
            continue
        word = _joined(match[0])
        first, colons, rest = word.partition("::")
        if first in names:
            full = f"{names[first]}{colons}{rest}"
        else:
            candidates = (f"{space}::{word}" for space in opened if not space.startswith(_STABLE))
            is_called = not word.islower() or plain[match.end() : match.end() + 1] in {"(", "<"}
            full = next((name for name in candidates if is_called and (_row(name)[1] or name in known)), "")
        if full and not full.startswith(_STABLE):
            yield match.start(), len(match[0]), *_row(full)


def _stable_names(plain: str) -> list[str]:
    """The short names that a source imports from the stable ABI."""
    taken = [match[2] for match in _TAKEN.finditer(plain) if _joined(match[1]).startswith(_STABLE)]
    taken += [match[1] for match in _TYPE_ALIAS.finditer(plain) if _joined(match[2]).startswith(_STABLE)]
    has_all = any(_joined(match[1]).startswith(_STABLE) for match in _OPENED.finditer(plain))
    return [*taken, "Tensor"] if has_all else taken


def _without(plain: str, names: list[str]) -> str:
    """A source without names."""
    return re.sub(rf"\b(?:{'|'.join(map(re.escape, names))})\b", " ", plain) if names else plain


def _joined(name: str) -> str:
    """A name without blanks around its colons."""
    return re.sub(r"\s+", "", name)


def _of_shape(plain: str, index: int) -> bool:
    """Whether a method is called on the sizes, strides or device of a tensor."""
    return plain[:index].rstrip().endswith(("sizes()", "strides()", "device()"))
