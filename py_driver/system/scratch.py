"""Scratch directories of runs; the leftovers of a killed run are found and removed by a later run."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.system.locks import take, try_to_take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREFIX: Final = ".rules_torch_kernels."
_NAME: Final = re.compile(rf"{re.escape(_PREFIX)}[a-z0-9_]{{8}}")
_LOCK: Final = "lock"
_MARKER: Final = b"A run of the driver of rules_torch_kernels works here as long as it holds the lock of this file.\n"
"""The content of the lock once it is held: only marked directories are known to be the driver's, and are removed."""


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new directory in another, with a lock in it, during the context.

    Args:
        parent: a directory on the file system of the result.

    Raises:
        OSError: the directory cannot be created.
    """
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with (directory / _LOCK).open("xb") as lock:
            with suppress(OSError):  # a file system without locks, on which nothing is swept
                take(lock)
            lock.write(_MARKER)
            lock.flush()
            yield directory
    finally:
        remove(directory)


def sweep(parent: Path, rescue: Callable[[Path], None] | None = None) -> None:
    """Remove the scratch directories of killed runs: named and marked as here, and not locked.

    Args:
        parent: the directory that may contain them.
        rescue: moves contents that must stay out of a directory.
    """
    for path in parent.iterdir():
        with suppress(OSError), _left(path) as left:
            if left:
                if rescue is not None:
                    rescue(path)
                remove(path)


def is_leftover(directory: Path) -> bool:
    """Whether a path is a directory that `sweep` removes."""
    with suppress(OSError), _left(directory) as left:
        return left
    return False


@contextmanager
def _left(directory: Path) -> Iterator[bool]:
    """Whether a directory is the leftover of a killed run; no other run removes it during the context."""
    lock = directory / _LOCK
    if (
        not _NAME.fullmatch(directory.name)
        or any(path.is_symlink() for path in (directory, lock))
        or not lock.is_file()
    ):
        yield False
        return
    with lock.open("r+b") as file:
        yield try_to_take(file) and file.read(len(_MARKER) + 1) == _MARKER


def settle(fresh: Path, target: Path) -> None:
    """Move a finished directory to its place, unless another run was faster.

    Args:
        fresh: a directory in a scratch directory.
        target: its final path, which never exists incomplete.

    Raises:
        OSError: the directory cannot be moved.
    """
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def remove(path: Path) -> None:
    """Remove a file, or a directory, including read-only directories in it, such as Bazel's installation.

    Whatever the system does not allow to be removed stays.
    """
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            path.unlink()
        return
    for parent, _, _ in os.walk(path):
        os.chmod(parent, 0o700)  # noqa: PTH101  (os.walk's own string)
    shutil.rmtree(path, ignore_errors=True)
