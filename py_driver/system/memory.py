"""The memory for concurrent compile actions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MEGABYTE: Final = 1 << 20
_OTHERS: Final = 1024
"""The memory reserved for Bazel's own server and for the system, in megabytes."""

_BUILD: Final = 4096
"""The memory that a build needs to make progress, in megabytes: the largest action is assumed to take 3 GB."""

_MOST_BUILDS: Final = 4

_ROOT: Final = Path("/")
_LIMITS: Final = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""The file with a group's limit, by controller: empty for control groups version 2, `memory` for version 1."""


def machine_memory(root: Path = _ROOT) -> int:
    """The memory of the machine, or of its container or control group if that is less.

    Args:
        root: the directory with `proc` and `sys`.

    Returns:
        Megabytes.
    """
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if root == _ROOT else []
    for line in _lines(root / "proc" / "meminfo"):
        name, _, amount = line.partition(":")
        if name == "MemTotal" and amount.split()[:1] and amount.split()[0].isdigit():
            found.append(int(amount.split()[0]) * 1024)
    for line in _lines(root / "proc" / "self" / "cgroup"):
        controllers, _, group = line.partition(":")[2].partition(":")
        for controller in {"", "memory"} & set(controllers.split(",")):
            base = root / "sys" / "fs" / "cgroup" / controller
            here = base / group.strip().lstrip("/")
            # A container sees its own group as the root, or as a path that does not exist.
            for path in (here, *here.parents):
                text = "".join(_lines(path / _LIMITS[controller])).strip()
                found += [int(text)] if text.isascii() and text.isdigit() and int(text) else []
                if path == base:
                    break
    return min(found) // _MEGABYTE


def _lines(file: Path) -> list[str]:
    """The lines of a file; empty if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def action_memory(ram: int | None = None, running: int = 1) -> int:
    """The memory that Bazel may give to concurrent actions, in megabytes.

    Args:
        ram: gigabytes for the build; None for its share of the machine's memory.
        running: the number of builds that share the machine.
    """
    total = machine_memory() // running if ram is None else ram * 1024
    return max(total - _OTHERS, total // 2)


def builds_at_once() -> int:
    """How many builds the machine has memory for, each with a server and the largest action."""
    return max(1, min(_MOST_BUILDS, machine_memory() // _BUILD))
