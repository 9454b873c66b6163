"""Records of the variants built here: the SHA-256 of each metadata.json, and of the archives.

A metadata.json has the digests of all files. The records lie outside of `build/`: whoever changes a file there can also
change its digest in metadata.json. They include the archives because statements name the archives of the lock, which
may have changed since the build.
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
LOADED: Final = "loaded"
"""The directory of the cache with the results of loads."""


def remember(variant: Path, archives: Iterable[Entry]) -> None:
    """Record a built variant.

    Args:
        variant: the directory of a variant that Bazel built, or that was found to be identical.
        archives: all archives that it was built from.

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
    """Whether a build here produced a metadata.json from archives.

    Args:
        sha256: its SHA-256 in hexadecimal.
        archives: all archives that it was built from.
    """
    return _line(sha256, archives) in _known()


def was_made_from_others(sha256: str) -> bool:
    """Whether a build here produced a metadata.json, from whatever archives."""
    return any(line.startswith(sha256) for line in _known())


def remember_load(variant: Path, name: str, wrong: str) -> None:
    """Record that a built variant could not be loaded, or that it could.

    Args:
        variant: its directory.
        name: its identifier.
        wrong: the failure; empty if it was loaded.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    path = _failure(hashlib.sha256((variant / METADATA).read_bytes()).hexdigest(), name)
    with storage_errors(path):
        if wrong:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wrong, encoding="utf-8")
        else:
            path.unlink(missing_ok=True)


def failed_load(sha256: str, name: str) -> str:
    """The failure of the last attempt to load a variant here; empty if there was none, or if it was loaded.

    Args:
        sha256: the SHA-256 of its metadata.json, in hexadecimal.
        name: its identifier.
    """
    path = _failure(sha256, name)
    return path.read_text(encoding="utf-8", errors="replace") if is_file(path) else ""


def _failure(sha256: str, name: str) -> Path:
    return cache_root() / LOADED / f"{name}-{sha256}.failed"


def digest_of(archives: Iterable[Entry]) -> str:
    """The hexadecimal SHA-256 of a text with the SHA-256 of each archive on a line, sorted."""
    pins = "".join(sorted({f"{archive.sha256}\n" for archive in archives}))
    return hashlib.sha256(pins.encode()).hexdigest()


def _line(sha256: str, archives: Iterable[Entry]) -> str:
    return f"{sha256} {digest_of(archives)}"


def _known() -> frozenset[str]:
    path = cache_root() / _NAME
    return _lines(path, path.stat()) if is_file(path) else frozenset()


@lru_cache(maxsize=1)
def _lines(path: Path, _status: stat_result) -> frozenset[str]:
    """The lines of a file, which is read again when its status changes."""
    return frozenset(path.read_text(encoding="ascii", errors="replace").splitlines())
