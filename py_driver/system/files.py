"""Files of the user's: looked at without surprises, written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.spelling import near_path
from py_driver.system.interrupts import held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

_REFUSALS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), Code.NO_SPACE),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST), Code.PERMISSION),
}

_LFS = b"version https://git-lfs.github.com/spec/"
_LFS_SIZE = 1024
"""A pointer has fewer bytes (docs/spec.md of git-lfs)."""


def is_file(path: Path) -> bool:
    """Whether a path is that of a regular file; no if nobody can tell: no permission, a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113  (Path.is_file raises where nobody can tell)


def is_directory(path: Path) -> bool:
    """Whether a path is that of a directory; no if nobody can tell."""
    return os.path.isdir(path)  # noqa: PTH112  (as above)


def is_readable(path: Path) -> bool:
    """Whether the mode of a file lets this process read it."""
    return os.access(path, os.R_OK)


def is_lfs_pointer(path: Path, size: int) -> bool:
    """Whether a file is what Git LFS leaves in the place of one that it has not fetched.

    Args:
        path: of the file, which can be read.
        size: of it.
    """
    if size >= _LFS_SIZE:
        return False
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def contains(directory: str, path: str) -> bool:
    """Whether a path lies in a directory, or is it; both are absolute, and without symbolic links."""
    return os.path.commonpath([directory, path]) == directory


def sha256(content: bytes) -> str:
    """SHA-256, in hex."""
    import hashlib  # noqa: PLC0415  (2.3 ms, and `driver check` seldom needs it)

    return hashlib.sha256(content).hexdigest()


def path_digest(path: Path) -> str:
    """A name for what is kept for a path, that differs from those for others."""
    return sha256(os.fsencode(path))[:12]


def refusal(problem: OSError) -> Code | None:
    """What it is that keeps something from being written: NO_SPACE, PERMISSION; None if it is something else."""
    return _REFUSALS.get(problem.errno or 0)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what keeps something in or at a path from being read into a DriverError.

    Raises:
        DriverError: FILE_MISSING, PERMISSION.
    """
    try:
        yield
    except FileNotFoundError as problem:
        missing = Path(problem.filename or path)
        raise error(Code.FILE_MISSING, f"there is no file {missing}", help=near_path(missing)) from None
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
        raise error(refusal(problem) or Code.PERMISSION, f"cannot write {path}: {problem.strerror}") from None


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of another when this ends well: a reader sees the old one or it, never a part.

    Args:
        path: of the file, which may not be there yet; if it is, its mode stays.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    file = fresh.open("xb")
    try:
        with file:
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes) -> None:
    """Write a file whole; a symbolic link stays one, and the file that it leads to is written.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    with writing(path), replacing(path.resolve()) as file:
        file.write(content)


class Writes:
    """Files that are written together."""

    def __init__(self) -> None:
        """None is written yet."""
        self._old: dict[Path, bytes | None] = {}

    def write(self, path: Path, content: bytes) -> None:
        """Write a file; see `write`.

        Raises:
            DriverError: NO_SPACE or PERMISSION.
        """
        self._note(path.resolve())
        write(path, content)

    def remove(self, path: Path) -> None:
        """Remove a file.

        Raises:
            DriverError: PERMISSION.
        """
        self._note(path)
        with writing(path):
            path.unlink()

    def _note(self, path: Path) -> None:
        if path not in self._old:
            with reading(path):
                self._old[path] = path.read_bytes() if path.exists() else None

    def undo(self) -> None:
        """Bring back what the files were.

        Raises:
            DriverError: NO_SPACE or PERMISSION.
        """
        wrong: list[Diagnostic] = []
        for path, content in self._old.items():
            try:
                with writing(path):
                    if content is None:
                        path.unlink(missing_ok=True)
                    elif not path.exists() or path.read_bytes() != content:
                        write(path, content)
            except DriverError as failure:
                wrong += failure.diagnostics
        if wrong:
            raise DriverError(wrong)


@contextmanager
def together() -> Iterator[Writes]:
    """Files that are all written when this ends well; after Ctrl-C or an error they are what they were."""
    writes = Writes()
    try:
        yield writes
    except BaseException as cause:
        try:
            with held():
                writes.undo()
        except DriverError as failure:
            first = cause.diagnostics if isinstance(cause, DriverError) else ()
            raise DriverError([*first, *failure.diagnostics]) from cause
        raise


def keep_from_git(directory: Path) -> None:
    """Let git ignore a directory and all in it, unless its .gitignore says something already.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    file = directory / ".gitignore"
    if not is_file(file):
        write(file, b"*\n")


def difference(old: str, new: str, name: str, name_of_new: str) -> str:
    """A unified diff of two texts; nothing if they are equal."""
    from difflib import unified_diff  # noqa: PLC0415  (only messages need it)

    return "\n".join(unified_diff(old.splitlines(), new.splitlines(), name, name_of_new, lineterm=""))
