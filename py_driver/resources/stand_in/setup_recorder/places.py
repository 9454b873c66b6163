"""Lines of the project: which one of its files called, raised or created something."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType


class Places:
    """The places in the files of a project.

    Args:
        project: its directory.
    """

    def __init__(self, project: str) -> None:
        self._prefix = os.path.join(os.path.realpath(project), "")  # noqa: PTH118

    def of(self, frame: FrameType, line: int | None = None) -> tuple[str, int] | None:
        """The file of a frame, relative to the project, and the line; None if it is of no file of the project.

        A build backend runs the text of setup.py without its name, and sets `__file__`.
        """
        name = frame.f_code.co_filename
        if name == "<string>":
            name = str(frame.f_globals.get("__file__", name))
        if name.startswith("<"):
            return None
        return next(iter(self.of_file(name, frame.f_lineno if line is None else line)), None)

    def of_file(self, name: str, line: int) -> list[tuple[str, int]]:
        """The place of a line in a file; empty if it is none of the project."""
        path = os.path.realpath(name)
        own = path.startswith(self._prefix) and os.path.isfile(path)  # noqa: PTH113
        return [(path[len(self._prefix) :], line)] if own else []

    def caller(self, created: object = None) -> tuple[str, int] | None:
        """The innermost place of the project that is running.

        Args:
            created: an object whose own `__init__` does not count.
        """
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (there is no other way to walk up)
        while frame is not None:
            own = created is not None and frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is created
            place = None if own else self.of(frame)
            if place:
                return place
            frame = frame.f_back
        return None

    def raised(self, problem: BaseException) -> list[tuple[str, int]]:
        """The places of a traceback, the innermost last; those of its causes if it has none of its own."""
        seen: list[Any] = []
        current: BaseException | None = problem
        while current is not None and current not in seen:
            seen.append(current)
            found = list(self._of_traceback(current.__traceback__))
            if found:
                return found
            current = current.__cause__ or current.__context__
        return []

    def _of_traceback(self, tb: TracebackType | None) -> Iterator[tuple[str, int]]:
        while tb is not None:
            place = self.of(tb.tb_frame, tb.tb_lineno)
            if place:
                yield place
            tb = tb.tb_next
