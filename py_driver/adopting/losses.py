"""Parts of a project that are not carried over to its kernel, each with its place and advice."""

from __future__ import annotations

from typing import NamedTuple


class Loss(NamedTuple):
    """A part that is not carried over, or that the author should check.

    Attributes:
        file: the file, relative to the project; empty without one.
        line: the line, 1-based; 0 without one.
        reason: a description in one line.
        advice: the advice for the author.
        missing: whether the kernel certainly lacks a feature of the module; False if it only may.
    """

    file: str
    line: int
    reason: str
    advice: str
    missing: bool = True

    @property
    def place(self) -> str:
        """The location, for people."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_json(self) -> dict[str, str | int | bool]:
        """The loss as a value for JSON."""
        return self._asdict()


def line_of(text: str, start: int) -> int:
    """The line number of a position in a text."""
    return text.count("\n", 0, start) + 1
