"""The status of processes, as Linux lists it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def stat_fields(directory: Path) -> list[str]:
    """The fields behind the name of a process's program, which may have blanks itself: the first is the state.

    Args:
        directory: the directory of the process, `/proc/PID`; see proc_pid_stat(5).

    Raises:
        OSError: the process has ended.
    """
    return (directory / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
