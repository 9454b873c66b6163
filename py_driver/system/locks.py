"""File locks, which the system releases when a process ends, however it ends."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def take(file: IO[Any]) -> None:
    """Lock an open file, waiting until it is free.

    Raises:
        OSError: the file system has no locks.
    """
    fcntl.flock(file, fcntl.LOCK_EX)


def try_to_take(file: IO[Any]) -> bool:
    """Lock an open file if it is free; returns whether it is locked now.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_taken(path: Path) -> bool:
    """Whether a file is locked at this moment; False if it does not exist."""
    try:
        with path.open("rb") as file:
            return not try_to_take(file)
    except OSError:
        return False


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of a file during the context; others wait.

    Args:
        path: the file, which is created if it does not exist.
        waiting: called before waiting for another holder.

    Raises:
        OSError: the file cannot be created or locked.
    """
    with path.open("ab") as file:
        if not try_to_take(file):
            if waiting is not None:
                waiting()
            take(file)
        yield
