"""Children of a server that wait for ever for a lock: what a fork of a process with several threads may end in.

buildbox-casd 1.3 forks without an exec to put the inputs of an action in place. If another of its threads has a lock at
that moment, the child waits for it without an end, and the action with it (seen once in some thousand actions).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_WAITS_FOR_A_LOCK: Final = "futex"
"""What the kernel's function begins with in which a process waits for a lock (`/proc/PID/wchan`)."""


def waiting_children(parent: int) -> dict[int, int]:
    """The children of a process that run its own program, have one thread and wait for a lock.

    Nothing can give such a process the lock but a process that shares memory with it. So one that is still there some
    seconds later, and has not run meanwhile, waits for ever.

    Args:
        parent: the process's id.

    Returns:
        For each child's id, how long it has run, in the kernel's ticks.
    """
    found = {}
    for directory in _PROC.glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text(encoding="ascii", errors="replace").rpartition(") ")[2].split()
            is_child = int(fields[1]) == parent and fields[17] == "1"
            if is_child and (directory / "exe").samefile(_PROC / str(parent) / "exe"):
                waits_in = (directory / "wchan").read_text(encoding="ascii")
                if waits_in.startswith(_WAITS_FOR_A_LOCK):
                    found[int(directory.name)] = int(fields[11]) + int(fields[12])
        except (OSError, ValueError, IndexError):
            continue  # it has ended, or is somebody else's
    return found
