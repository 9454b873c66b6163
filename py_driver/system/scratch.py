"""Directories in which a run puts something together; if it is killed, a later run finds and removes what it left."""

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
"""What the lock says once it is held: nothing else is known to be the driver's, and may be removed."""


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new directory in another, with a lock in it, as long as this lasts.

    Args:
        parent: on the file system where the result is to be.

    Raises:
        OSError: it cannot be made.
    """
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with (directory / _LOCK).open("xb") as lock:
            with suppress(OSError):  # a file system without locks; there, nothing is swept
                take(lock)
            lock.write(_MARKER)
            lock.flush()
            yield directory
    finally:
        remove(directory)


def sweep(parent: Path, rescue: Callable[[Path], None] | None = None) -> None:
    """Remove the directories that runs have left which were killed: named and marked as here, and locked by nobody.

    Args:
        parent: where they may be.
        rescue: takes out of one what is to stay.
    """
    for path in parent.iterdir():
        with suppress(OSError), _left(path) as left:
            if left:
                if rescue is not None:
                    rescue(path)
                remove(path)


def is_leftover(directory: Path) -> bool:
    """Whether something is a directory that `sweep` removes."""
    with suppress(OSError), _left(directory) as left:
        return left
    return False


@contextmanager
def _left(directory: Path) -> Iterator[bool]:
    """Whether a run left this that was killed; nobody else removes it as long as this lasts."""
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
    """Move what was put together to its place, unless another run was faster.

    Args:
        fresh: a directory in one of `scratch`.
        target: a directory beside that, which only ever is there whole.

    Raises:
        OSError: it cannot be moved.
    """
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def remove(path: Path) -> None:
    """Remove a file, or a directory with the directories in it which nobody may write to, such as Bazel's installation.

    What the system does not let this remove stays there.
    """
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            path.unlink()
        return
    for parent, _, _ in os.walk(path):
        os.chmod(parent, 0o700)  # noqa: PTH101  (os.walk's own string)
    shutil.rmtree(path, ignore_errors=True)
