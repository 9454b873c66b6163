"""What of a project is not carried over to its kernel, each with its place and what to do about it."""

from __future__ import annotations

from typing import NamedTuple


class Loss(NamedTuple):
    """Something that is not carried over, or that its author should look at.

    Attributes:
        file: relative to the project; empty if it is of no file.
        line: 1-based; 0 if it is of no line.
        reason: what it is, in one line.
        advice: what to do.
        missing: whether the kernel lacks something that the module has; else it only may.
    """

    file: str
    line: int
    reason: str
    advice: str
    missing: bool = True

    @property
    def place(self) -> str:
        """The place, for people."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_json(self) -> dict[str, str | int | bool]:
        """The loss as a value for JSON."""
        return self._asdict()


def line_of(text: str, start: int) -> int:
    """The line of a position in a text."""
    return text.count("\n", 0, start) + 1
