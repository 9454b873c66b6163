"""Which uses of torch's C++ API in sources have an equivalent in its stable ABI, and since which torch."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import tomli

from py_driver.errors import Span
from py_driver.inspecting.cpp_text import masked
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME: Final = re.compile(r"(?<![\w:])(?:::)?((?:at|c10|torch)(?:::\w+)+)")
_MACRO: Final = re.compile(
    r"\b(TORCH_CHECK(?:_\w+)?|TORCH_INTERNAL_ASSERT\w*|TORCH_WARN\w*|AT_ASSERTM?|TORCH_LIBRARY(?:_\w+)?|AT_DISPATCH_\w+|(?:AT|C10)_CUDA_\w+|PYBIND11_MODULE)\b"
)
_METHOD: Final = re.compile(r"(?:\.|->)\s*(\w+)\s*(?:<[^<>;(]*>)?\s*\(")
_STABLE: Final = ("torch::stable", "torch::headeronly")


class Equivalent(NamedTuple):
    """What stands for a use in the stable ABI.

    Attributes:
        name: of the use: `at::Tensor`, `TORCH_CHECK`, `.numel` for a method of a tensor.
        stable: what to write instead.
        header: that declares it.
        since: the first torch that has it, `2.10`; empty if no release has.
        fix: whether one name for the other is enough.
        calls: how it is called with 0, 1, 2... arguments; an empty one is not called in the same way.
    """

    name: str
    stable: str
    header: str
    since: str
    fix: bool
    calls: tuple[str, ...] = ()


class Use(NamedTuple):
    """A use in a source.

    Attributes:
        name: as in `Equivalent`.
        span: where.
        equivalent: what stands for it; None if no equivalent is known, or no release has it.
    """

    name: str
    span: Span
    equivalent: Equivalent | None

    @property
    def instead(self) -> str:
        """What people do without an equivalent; empty if that is not known."""
        name = self.name
        beginnings = [
            start for start in alternatives() if name == start or (start[-1] in ".:_" and name.startswith(start))
        ]
        parts = name.split("::")
        beginnings += [start for end in range(1, len(parts)) if (start := "::".join(parts[:end])) in alternatives()]
        return alternatives()[max(beginnings, key=len)] if beginnings else ""


@cache
def alternatives() -> Mapping[str, str]:
    """What people do instead of names that have no equivalent, by the beginnings of the names."""
    rows = tomli.loads(resource("stable_abi.toml"))["none"]
    return {name: row["instead"] for row in rows for name in row["names"]}


@cache
def equivalents() -> Mapping[str, Equivalent]:
    """The equivalents that are known, by the names of the uses."""
    rows = tomli.loads(resource("stable_abi.toml"))["use"]
    return {
        row["name"]: Equivalent(
            row["name"], row["stable"], row["header"], row["since"], row["fix"], tuple(row.get("calls", ()))
        )
        for row in rows
    }


@cache
def tensor_methods() -> frozenset[str]:
    """The names of the methods of torch's tensors, without those that other classes often have."""
    lines = resource("tensor_methods.txt").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def stable_uses(text: str, file: str, *, ported: bool = False) -> Iterator[Use]:
    """The uses of torch's C++ API in a source, in its order, those of the stable ABI left out.

    Names count as they are written: those that a `using` shortens are not found. A method counts by its name if some
    tensor has one of that name, and only in a source that names torch's tensors.

    Args:
        text: of the source.
        file: its path, as users know it.
        ported: whether methods of the stable ABI's tensors count as well, those left out that these have.
    """
    plain = masked(text)
    lines, known = text.split("\n"), equivalents()
    has_tensors = re.search(r"\b(?:at|torch)::Tensor\b", plain) is not None
    has_tensors = has_tensors or (ported and "torch::stable::Tensor" in plain)
    found: list[tuple[int, int, str]] = []
    for pattern in (_NAME, _MACRO):
        found += [(match.start(1), len(match[1]), match[1]) for match in pattern.finditer(plain)]
    if has_tensors:
        methods = (
            (match.start(1), match[1]) for match in _METHOD.finditer(plain) if not _of_shape(plain, match.start())
        )
        own = tensor_methods()
        found += [(at, len(name), f".{name}") for at, name in methods if f".{name}" in known or name in own]
    for at, length, name in sorted(found):
        if name.startswith(_STABLE):
            continue
        # `at::ScalarType::Half` is a use of `at::ScalarType`.
        parts = name.split("::")
        prefixes = ("::".join(parts[:count]) for count in range(len(parts), 0, -1))
        use = next((prefix for prefix in prefixes if prefix in known), name)
        row = known.get(use)
        line = plain.count("\n", 0, at)
        column = at - (plain.rfind("\n", 0, at) + 1) + 1
        span = Span(file, line + 1, column, length, lines[line])
        yield Use(use, span, row if row and row.since else None)


def _of_shape(plain: str, index: int) -> bool:
    """Whether a method is called of the sizes, strides or device of a tensor."""
    return plain[:index].rstrip().endswith(("sizes()", "strides()", "device()"))
