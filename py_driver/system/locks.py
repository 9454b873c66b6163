"""Locks of files, which the system gives back when a process ends, however that is."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def take(file: IO[Any]) -> None:
    """Lock an open file as soon as nobody else has it locked.

    Raises:
        OSError: the file system has no locks.
    """
    fcntl.flock(file, fcntl.LOCK_EX)


def try_to_take(file: IO[Any]) -> bool:
    """Lock an open file if nobody else has it locked; whether that is so.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_taken(path: Path) -> bool:
    """Whether somebody has a file locked at this moment; nobody has one that is not there."""
    try:
        with path.open("rb") as file:
            return not try_to_take(file)
    except OSError:
        return False


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Have a file locked as long as this lasts; whoever comes meanwhile waits.

    Args:
        path: of the file; made if it does not exist.
        waiting: called before this waits for another.

    Raises:
        OSError: the file cannot be made or locked.
    """
    with path.open("ab") as file:
        if not try_to_take(file):
            if waiting is not None:
                waiting()
            take(file)
        yield
