"""The store: archives in the user's cache, each under its own digest, never incomplete."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.system.cache import storage_errors
from py_driver.system.files import is_file
from py_driver.system.locks import is_taken, try_to_take

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from py_driver.fetch.entry import Entry

_NAME: Final = re.compile(r"([0-9a-f]{64})(?:\.zip)?")
_LOCK_POLL_SECONDS: Final = 0.1
"""The interval at which a process checks for another process's download; short, so that it can be stopped quickly."""


def unpinned(root: Path, keys: Collection[str]) -> list[Path]:
    """The unpinned files of a store: archives, and partial files without a running download.

    Args:
        root: the cache directory.
        keys: the keys of all pinned entries, and the SHA-256 of their archives.
    """
    base = root / "store"
    kept = [path for kind in ("sha256", "slim") if (base / kind).is_dir() for path in (base / kind).iterdir()]
    found = [path for path in kept if (name := _NAME.fullmatch(path.name)) and name[1] not in keys]
    if (base / "partial").is_dir():
        begun = [path for path in (base / "partial").iterdir() if _NAME.fullmatch(path.name)]
        found += [path for path in begun if not is_taken(base / "lock" / path.name)]
    return sorted(found)


class Store:
    """The archives below a cache directory.

    Args:
        root: the cache directory, e.g. cache_root(); created at the first use.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._base = root / "store"

    def path(self, entry: Entry) -> Path:
        """The path of an entry's archive, or of the bundle of its required members.

        Raises:
            DriverError: SET_UP if it is not a regular file, also in the other methods.
        """
        if entry.members_only:
            return self._place("slim", f"{entry.key}.zip")
        return self.archive(entry.sha256)

    def archive(self, sha256: str) -> Path:
        """The path of the archive with a digest."""
        return self._place("sha256", sha256)

    def partial(self, key: str) -> Path:
        """The path of a partial file; its directory exists afterwards.

        Raises:
            DriverError: the store cannot be written (NO_SPACE, PERMISSION).
        """
        return self._made("partial", key)

    def has(self, entry: Entry) -> bool:
        """Whether the store has the entry, by its size: sufficient to know what to fetch, not to use it.

        Files in it are complete and verified, and `Fetcher.fetch` checks their bytes before use.
        """
        try:
            size = self.path(entry).stat().st_size
        except OSError:
            return False
        return entry.members_only or not entry.size or size == entry.size

    def commit(self, partial: Path, final: Path) -> None:
        """Move a complete and verified partial file to its path, durably and atomically.

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
        """Lock `key` for fetching, among all processes and threads.

        Args:
            key: an entry's key.
            stop: ends the waiting when set.

        Raises:
            DriverError: the store cannot be written (NO_SPACE, PERMISSION), or `stop` was set (INTERRUPTED).
        """
        path = self._made("lock", key)
        with storage_errors(path), path.open("ab") as file:
            while not try_to_take(file):
                if stop.wait(_LOCK_POLL_SECONDS):
                    raise error(Code.INTERRUPTED, "interrupted")
            yield

    def _place(self, kind: str, key: str) -> Path:
        """The path of a file of the store, which must not be anything but a regular file."""
        path = self._base / kind / key
        if os.path.exists(path) and not is_file(path):  # noqa: PTH110  (Path.exists raises where nobody can tell)
            raise error(Code.SET_UP, f"{path} is not a regular file", help="remove it: the store holds only files")
        return path

    def _made(self, kind: str, key: str) -> Path:
        """The same; its directory exists afterwards."""
        path = self._place(kind, key)
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path
