"""Files of the user: checked without exceptions, written completely or not at all."""

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
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.EIO, errno.ESTALE), Code.PERMISSION),
}

_LFS = b"version https://git-lfs.github.com/spec/"
_LFS_SIZE = 1024
"""A pointer has fewer bytes (docs/spec.md of git-lfs)."""


def is_file(path: Path) -> bool:
    """Whether a path is a regular file; False if that cannot be determined: no permission, a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113  (Path.is_file raises then)


def is_directory(path: Path) -> bool:
    """Whether a path is a directory; False if that cannot be determined."""
    return os.path.isdir(path)  # noqa: PTH112  (as above)


def is_readable(path: Path) -> bool:
    """Whether the mode of a file lets this process read it."""
    return os.access(path, os.R_OK)


def is_lfs_pointer(path: Path, size: int) -> bool:
    """Whether a file is the pointer that Git LFS leaves instead of a file that it has not fetched.

    Args:
        path: the file, which must be readable.
        size: the size of the file.
    """
    if size >= _LFS_SIZE:
        return False
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def contains(directory: str, path: str) -> bool:
    """Whether a path is a directory or lies in it; both are absolute, and without symbolic links."""
    return os.path.commonpath([directory, path]) == directory


def sha256(content: bytes) -> str:
    """The hexadecimal SHA-256."""
    import hashlib  # noqa: PLC0415  (2.3 ms, and `driver check` seldom needs it)

    return hashlib.sha256(content).hexdigest()


def path_digest(path: Path) -> str:
    """A name for files that are kept for a path, unique to the path."""
    return sha256(os.fsencode(path))[:12]


def refusal(problem: OSError) -> Code | None:
    """The error code for a failed write: NO_SPACE or PERMISSION; None for any other reason."""
    return _REFUSALS.get(problem.errno or 0)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of reading at or below a path into DriverErrors.

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
def looking_twice() -> Iterator[None]:
    """Turn the error of a file that vanishes between two looks at it into a DriverError.

    Raises:
        DriverError: FILE_MISSING.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as problem:
        if problem.filename is None:  # the working directory
            raise
        advice = "run the command again; an editor or git may have removed it for a moment"
        raise error(Code.FILE_MISSING, f"{problem.filename} has vanished since it was checked", help=advice) from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of writing at or below a path into DriverErrors.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    try:
        yield
    except OSError as problem:
        raise error(refusal(problem) or Code.PERMISSION, f"cannot write {path}: {problem.strerror}") from None


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that replaces another on success: a reader sees either the old file or the new one, never a part.

    Args:
        path: the file, which need not exist; if it does, its mode stays.

    Raises:
        OSError: the file cannot be written.
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
    """Write a file atomically; a symbolic link stays, and its target is written.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    with writing(path), replacing(path.resolve()) as file:
        file.write(content)


class Writes:
    """Files that are written together."""

    def __init__(self) -> None:
        """Start without any file."""
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
        """Restore the files.

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
    """Files that are all written on success; after Ctrl-C or an error they are restored."""
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
    """Let git ignore a directory and its contents, unless it has a .gitignore.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    file = directory / ".gitignore"
    if not is_file(file):
        write(file, b"*\n")


def difference(old: str, new: str, name: str, name_of_new: str) -> str:
    """A unified diff of two texts; empty if they are equal."""
    from difflib import unified_diff  # noqa: PLC0415  (only messages need it)

    return "\n".join(unified_diff(old.splitlines(), new.splitlines(), name, name_of_new, lineterm=""))
