"""A version that is a string and compares as a version, as torch's own."""

from __future__ import annotations

from typing import Any

from packaging.version import InvalidVersion, Version

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version, which compares with strings, tuples of numbers and versions."""

    __slots__ = ()

    @property
    def release(self) -> tuple[int, ...]:
        """Its numbers."""
        return Version(str(self)).release

    @property
    def major(self) -> int:
        """The first number."""
        return Version(str(self)).major

    @property
    def minor(self) -> int:
        """The second number."""
        return Version(str(self)).minor

    @property
    def micro(self) -> int:
        """The third number."""
        return Version(str(self)).micro

    @property
    def local(self) -> str | None:
        """What follows `+`."""
        return Version(str(self)).local

    def _order(self, other: Any) -> int:  # noqa: ANN401  (what Python compares it with)
        """-1, 0 or 1, as this is below, equal to or above another; texts that are no versions compare as texts."""
        text = ".".join(map(str, other)) if isinstance(other, (tuple, list)) else str(other)
        try:
            ours, theirs = Version(str(self)), Version(text)
        except InvalidVersion:
            mine = str.__str__(self)
            return (mine > text) - (mine < text)
        return (ours > theirs) - (ours < theirs)

    def __eq__(self, other: object) -> bool:
        return self._order(other) == 0

    def __ne__(self, other: object) -> bool:
        return self._order(other) != 0

    def __lt__(self, other: Any) -> bool:  # noqa: ANN401
        return self._order(other) < 0

    def __le__(self, other: Any) -> bool:  # noqa: ANN401
        return self._order(other) <= 0

    def __gt__(self, other: Any) -> bool:  # noqa: ANN401
        return self._order(other) > 0

    def __ge__(self, other: Any) -> bool:  # noqa: ANN401
        return self._order(other) >= 0

    def __hash__(self) -> int:
        return str.__hash__(self)
