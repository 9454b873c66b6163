"""Files of the user's: looked at without surprises, written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_file(path: Path) -> bool:
    """Whether a path is that of a regular file; no if nobody can tell: no permission, a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113  (Path.is_file raises where nobody can tell)


def is_directory(path: Path) -> bool:
    """Whether a path is that of a directory; no if nobody can tell."""
    return os.path.isdir(path)  # noqa: PTH112  (as above)


def is_readable(path: Path) -> bool:
    """Whether the mode of a file lets this process read it."""
    return os.access(path, os.R_OK)


def contains(directory: str, path: str) -> bool:
    """Whether a path lies in a directory, or is it; both are absolute, and without symbolic links."""
    return os.path.commonpath([directory, path]) == directory


def path_digest(path: Path) -> str:
    """A name for what is kept for a path, that differs from those for others."""
    import hashlib  # noqa: PLC0415  (`driver check` has no time for it)

    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what keeps something in or at a path from being read into a DriverError.

    Raises:
        DriverError: PERMISSION.
    """
    try:
        yield
    except OSError as problem:
        raise error(Code.PERMISSION, f"cannot read {problem.filename or path}: {problem.strerror}") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what keeps something in or at a path from being written into a DriverError.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    try:
        yield
    except OSError as problem:
        code = Code.NO_SPACE if problem.errno in {errno.ENOSPC, errno.EDQUOT} else Code.PERMISSION
        raise error(code, f"cannot write {path}: {problem.strerror}") from None


def write(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part.

    The mode of a file that is there stays; a symbolic link stays one, and the file that it leads to is written.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    import tempfile  # noqa: PLC0415  (slow to load, and most runs write nothing)

    mask = os.umask(0)
    os.umask(mask)
    temporary = ""
    try:
        with writing(path):
            target = path.resolve()
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~mask
            handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            with open(handle, "wb") as file:  # noqa: PTH123  (a descriptor)
                file.write(content)
            Path(temporary).chmod(mode)
            Path(temporary).replace(target)
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def difference(old: str, new: str, name: str, name_of_new: str) -> str:
    """A unified diff of two texts; nothing if they are equal."""
    import difflib  # noqa: PLC0415  (slow to load)

    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), name, name_of_new, lineterm=""))
