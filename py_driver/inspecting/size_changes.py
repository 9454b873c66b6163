"""What differs between the sizes of two builds. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.inspecting.size_groups import by_arch, by_instance, by_section

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.inspecting.size import Library
    from py_driver.inspecting.size_groups import Group


class Change(NamedTuple):
    """Bytes of two builds.

    Attributes:
        name: of a section, an architecture or a kernel.
        kind: of the section, or of the architecture's code.
        before: bytes in the old build; None if it does not have it.
        after: likewise of the new one.
    """

    name: str
    kind: str
    before: int | None
    after: int | None

    @property
    def difference(self) -> int:
        """How much it grew."""
        return (self.after or 0) - (self.before or 0)

    @property
    def verdict(self) -> str:
        """`added`, `removed`, `grew`, `shrank` or `same`."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return "grew" if self.difference > 0 else "shrank" if self.difference < 0 else "same"

    def as_json(self) -> dict[str, Any]:
        """The change as a value for JSON."""
        return {**self._asdict(), "difference": self.difference, "verdict": self.verdict}


def changes_of(old: Sequence[Library], new: Sequence[Library]) -> dict[str, list[Change]]:
    """The changes of sections and architectures, in bytes of the files, and of kernels, without compression.

    Args:
        old: the libraries of the old build.
        new: those of the new one.

    Returns:
        The changes by `sections`, `archs` and `instances`: the largest first.
    """
    return {
        "sections": _changes(
            {(group.name, group.kind): group.stored for group in by_section(old)},
            {(group.name, group.kind): group.stored for group in by_section(new)},
        ),
        "archs": _changes(
            {(group.name, group.kind): group.stored for group in by_arch(old)},
            {(group.name, group.kind): group.stored for group in by_arch(new)},
        ),
        "instances": _changes(_unpacked(by_instance(old)), _unpacked(by_instance(new))),
    }


def _unpacked(groups: Sequence[Group]) -> dict[tuple[str, str], int]:
    """Bytes without compression: the share of a kernel in a compressed image depends on all others."""
    return {(group.name, ""): group.size for group in groups}


def _changes(old: Mapping[tuple[str, str], int], new: Mapping[tuple[str, str], int]) -> list[Change]:
    """The changes between two builds, the largest first."""
    found = [Change(*key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    return sorted(found, key=lambda change: (-abs(change.difference), change.name, change.kind))
