"""The differences between the sizes of two builds. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.inspecting.size_groups import by_arch, by_instance, by_section

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.inspecting.size import Library
    from py_driver.inspecting.size_groups import Group


class Change(NamedTuple):
    """The bytes of something in two builds.

    Attributes:
        name: the name of a section, an architecture or a kernel.
        kind: the kind of the section, or of the architecture's code.
        before: the bytes in the old build; None if it is missing there.
        after: the bytes in the new build; None if it is missing there.
    """

    name: str
    kind: str
    before: int | None
    after: int | None

    @property
    def difference(self) -> int:
        """Its growth."""
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
    """The changes of sections and architectures, in bytes of the files, and of kernels, in bytes without compression.

    Args:
        old: the libraries of the old build.
        new: the libraries of the new build.

    Returns:
        The changes by `sections`, `archs` and `instances`, the largest first.
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
    """Bytes without compression: a kernel's share of a compressed image depends on the other kernels."""
    return {(group.name, ""): group.size for group in groups}


def _changes(old: Mapping[tuple[str, str], int], new: Mapping[tuple[str, str], int]) -> list[Change]:
    """The changes between two builds, the largest first."""
    found = [Change(*key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    return sorted(found, key=lambda change: (-abs(change.difference), change.name, change.kind))
