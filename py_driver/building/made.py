"""Which variants were made here: the SHA-256 of each metadata.json, which has those of all files, and of the archives.

It lies outside of `build/`: whoever changes a file there can change its digest in metadata.json too. The archives of a
lock that was changed since are others than those of the build, and what says how it was made names the lock's.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from py_driver.plan.metadata import METADATA
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import stat_result
    from pathlib import Path

    from py_driver.fetch.entry import Entry

_NAME: Final = "made"


def remember(variant: Path, archives: Iterable[Entry]) -> None:
    """Keep what a build made.

    Args:
        variant: the directory of a variant as Bazel has made it, or that was found to be the same.
        archives: all that it was made from.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    line = _line(hashlib.sha256((variant / METADATA).read_bytes()).hexdigest(), archives)
    path = cache_root() / _NAME
    if line in _known():
        return
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as file:
            file.write(f"{line}\n")


def was_made(sha256: str, archives: Iterable[Entry]) -> bool:
    """Whether a build here made a metadata.json from some archives.

    Args:
        sha256: of it, in hexadecimal.
        archives: all that it was made from.
    """
    return _line(sha256, archives) in _known()


def was_made_from_others(sha256: str) -> bool:
    """Whether a build here made a metadata.json, whatever it was made from."""
    return any(line.startswith(sha256) for line in _known())


def digest_of(archives: Iterable[Entry]) -> str:
    """The SHA-256, in hexadecimal, of the SHA-256 of all archives, sorted, a line each."""
    pins = "".join(sorted({f"{archive.sha256}\n" for archive in archives}))
    return hashlib.sha256(pins.encode()).hexdigest()


def _line(sha256: str, archives: Iterable[Entry]) -> str:
    return f"{sha256} {digest_of(archives)}"


def _known() -> frozenset[str]:
    path = cache_root() / _NAME
    return _lines(path, path.stat()) if is_file(path) else frozenset()


@lru_cache(maxsize=1)
def _lines(path: Path, _status: stat_result) -> frozenset[str]:
    """The lines of a file, which is read once for each status that it has."""
    return frozenset(path.read_text(encoding="ascii", errors="replace").splitlines())
