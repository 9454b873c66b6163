"""How much memory compile steps may take together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_MEGABYTE: Final = 1 << 20
_OTHERS: Final = 1024
"""What is left to Bazel's own server and to the system, in megabytes."""

_MEMINFO: Final = Path("/proc/meminfo")
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's limit stands: control groups version 2 and version 1 (admin-guide of the Linux kernel)."""


def machine_memory(meminfo: Path = _MEMINFO, limits: tuple[Path, ...] = _LIMITS) -> int:
    """The memory of the machine, or of the container that this runs in if that is less, in megabytes.

    Args:
        meminfo: as /proc/meminfo.
        limits: files that have a limit in bytes, or a word if there is none; those that are not there are left out.
    """
    total = next(line for line in meminfo.read_text(encoding="ascii").splitlines() if line.startswith("MemTotal:"))
    found = [int(total.split()[1]) * 1024]
    for file in limits:
        text = file.read_text(encoding="ascii").strip() if file.is_file() else ""
        found += [int(text)] if text.isdigit() else []
    return min(found) // _MEGABYTE


def step_memory(ram: int | None = None) -> int:
    """What Bazel may give to steps that run at once, in megabytes.

    Args:
        ram: gigabytes that a build may take; None for what the machine has.
    """
    whole = machine_memory() if ram is None else ram * 1024
    return max(whole - _OTHERS, whole // 2)
