"""Children of a server that wait for a lock forever, which a fork of a process with several threads can cause.

buildbox-casd 1.3 forks without an exec to put the inputs of an action in place. If another thread holds a lock at that
moment, the child waits for it forever, and so does the action (seen once in some thousand actions).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from py_driver.system.processes import stat_fields

_PROC: Final = Path("/proc")
_WAITS_FOR_A_LOCK: Final = "futex"
"""The prefix of the kernel function in which a process waits for a lock (`/proc/PID/wchan`)."""


def waiting_children(parent: int) -> dict[int, int]:
    """The children of a process that run its own program, have a single thread and wait for a lock.

    Only a process that shares memory with such a child could release the lock. So a child that waits some seconds
    later, without having run meanwhile, waits forever.

    Args:
        parent: the process's id.

    Returns:
        For each child's id, its CPU time in the kernel's ticks.
    """
    found = {}
    for directory in _PROC.glob("[0-9]*"):
        try:
            fields = stat_fields(directory)
            is_child = int(fields[1]) == parent and fields[17] == "1"
            if is_child and (directory / "exe").samefile(_PROC / str(parent) / "exe"):
                waits_in = (directory / "wchan").read_text(encoding="ascii")
                if waits_in.startswith(_WAITS_FOR_A_LOCK):
                    found[int(directory.name)] = int(fields[11]) + int(fields[12])
        except (OSError, ValueError, IndexError):
            continue  # it has ended, or belongs to another user
    return found
