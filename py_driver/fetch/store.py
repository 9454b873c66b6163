"""The store: archives in the user's cache, each under its own digest, never half-written."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping

    from py_driver.fetch.entry import Entry

CACHE_VARIABLE: Final = "RULES_TORCH_KERNELS_CACHE"
"""Environment variable that names the cache directory."""

_LOCK_POLL_SECONDS: Final = 0.1
"""How often a process that waits for another one's download looks again; short, as it is all it costs to be stopped."""

_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED: Final = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


def cache_root(environ: Mapping[str, str] | None = None) -> Path:
    """The directory of everything the project caches for this user; not made yet.

    Args:
        environ: environment to look into (default: the process's own).

    Raises:
        DriverError: neither the cache variable, XDG_CACHE_HOME nor HOME says where (SET_UP).
    """
    environ = os.environ if environ is None else environ
    if own := environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # the XDG specification: a relative path is to be ignored
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise error(
                Code.SET_UP,
                "there is no place for the cache: HOME is not set",
                help=f"set HOME, or {CACHE_VARIABLE} to a directory with some gigabytes of space",
            )
        base = f"{home}/.cache"
    return Path(base, "rules_torch_kernels")


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what the file system refuses below `path` into a DriverError.

    Raises:
        DriverError: no space or quota left (NO_SPACE), not allowed to write (PERMISSION).
    """
    try:
        yield
    except OSError as wrong:
        if wrong.errno in _NO_SPACE:
            raise error(
                Code.NO_SPACE,
                f"no space left for {path}: {wrong.strerror}",
                help=f"free some space, or set {CACHE_VARIABLE} to a directory on a larger disk; "
                "what was fetched so far is kept",
            ) from wrong
        if wrong.errno in _NOT_ALLOWED:
            raise error(
                Code.PERMISSION,
                f"cannot write {path}: {wrong.strerror}",
                help=f"make it writable, or set {CACHE_VARIABLE} to a directory that is",
            ) from wrong
        raise


class Store:
    """The archives below a cache directory.

    Args:
        root: the cache directory, e.g. cache_root(); made on first use.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._base = root / "store"

    def path(self, entry: Entry) -> Path:
        """Where an entry's archive, or the bundle of its wanted members, is or will be."""
        if entry.slim:
            return self._base / "slim" / f"{entry.key}.zip"
        return self.archive(entry.sha256)

    def archive(self, sha256: str) -> Path:
        """Where the archive of that digest is or will be."""
        return self._base / "sha256" / sha256

    def partial(self, key: str) -> Path:
        """Where the first bytes of something on its way into the store are; its directory exists afterwards.

        Raises:
            DriverError: the store cannot be written (NO_SPACE, PERMISSION).
        """
        return self._place("partial", key)

    def has(self, entry: Entry) -> bool:
        """Whether the store has the entry, by its size: enough to know what is to be fetched, not to use it.

        Files get there whole and verified, and `Fetcher.fetch` looks at their bytes before anything is made of them.
        """
        try:
            size = self.path(entry).stat().st_size
        except OSError:
            return False
        return entry.slim or not entry.size or size == entry.size

    def commit(self, partial: Path, final: Path) -> None:
        """Move a whole and verified partial file to its place, durably and in one step.

        Raises:
            DriverError: the store cannot be written (NO_SPACE, PERMISSION).
        """
        with storage_errors(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o444)
            partial.replace(final)

    @contextmanager
    def lock(self, key: str, stop: threading.Event) -> Iterator[None]:
        """Be the only one, among all processes and threads, who fetches `key`.

        Args:
            key: an entry's key.
            stop: gives up waiting when set.

        Raises:
            DriverError: the store cannot be written (NO_SPACE, PERMISSION), or `stop` was set (INTERRUPTED).
        """
        path = self._place("lock", key)
        with storage_errors(path), path.open("ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if stop.wait(_LOCK_POLL_SECONDS):
                        raise error(Code.INTERRUPTED, "interrupted") from None
            yield

    def _place(self, kind: str, key: str) -> Path:
        path = self._base / kind / key
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path
