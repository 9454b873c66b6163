"""Copies built variants out of Bazel's output tree, so that readers see the old or the new variant, never a mixture."""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import TYPE_CHECKING

from py_driver.building.variant_dir import differences, remove_bytecode
from py_driver.errors import Code, error
from py_driver.plan.metadata import METADATA
from py_driver.system.files import writing
from py_driver.system.scratch import scratch, sweep

if TYPE_CHECKING:
    from pathlib import Path

_EXECUTABLE = {".so"}
_OLD = "old"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def collect(source: Path, build: Path, variant: str) -> tuple[Path, int]:
    """Copy a variant to a directory of variants, unless it is there already, byte for byte.

    Args:
        source: the directory that Bazel built.
        build: the parent directory of the copy: `PROJECT/build`, or that of a development build.
        variant: the variant's identifier.

    Returns:
        Its directory, and the size of its files in bytes.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    target = build / variant
    files = sorted(p for p in source.rglob("*") if p.is_file())
    size = sum(p.stat().st_size for p in files)
    names = {p.relative_to(source) for p in files}
    if target.is_dir() and not target.is_symlink():
        remove_bytecode(target)
    if (target / METADATA).is_file() and not differences(source, target):
        return target, size
    with writing(build):
        build.mkdir(parents=True, exist_ok=True)
        sweep(build, _put_back)
        with scratch(build) as work:
            fresh, old = work / variant, work / _OLD / variant
            for name in sorted(names):
                to = fresh / name
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, to)
                to.chmod(0o755 if to.suffix in _EXECUTABLE else 0o644)
            old.parent.mkdir()
            try:
                if not target.exists():
                    fresh.rename(target)
                elif not _exchange(fresh, target):
                    target.rename(old)
                    fresh.rename(target)
            finally:
                _put_back(work)
    return target, size


def _put_back(work: Path) -> None:
    """Restore a variant that was moved away and not yet replaced."""
    for old in (work / _OLD).glob("*"):
        if not (work.parent / old.name).exists():
            old.rename(work.parent / old.name)


def check_place(build: Path) -> None:
    """Refuse a path that cannot hold variants, before anything is built.

    Args:
        build: the directory for variants.

    Raises:
        DriverError: FOREIGN_FILE if the path exists and is not a directory.
    """
    if (build.is_symlink() or build.exists()) and not build.is_dir():
        raise error(Code.FOREIGN_FILE, f"{build} is not a directory", help="move it away; the variants go there")


def _exchange(path: Path, other: Path) -> bool:
    """Swap two directories atomically, so that both names exist all the time; False if the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    failed: int = renameat2(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return not failed
