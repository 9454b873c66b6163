"""Which variants were made here: the SHA-256 of each metadata.json, which has those of all other files.

It lies outside of `build/`: whoever changes a file there can change its digest in metadata.json too.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from py_driver.plan.metadata import METADATA
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = "made"


def remember(made: Path) -> None:
    """Keep what a build made.

    Args:
        made: the directory of a variant as Bazel has made it, or that was found to be the same.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    digest = hashlib.sha256((made / METADATA).read_bytes()).hexdigest()
    path = cache_root() / _NAME
    if digest in _known():
        return
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as file:
            file.write(f"{digest}\n")


def was_made(sha256: str) -> bool:
    """Whether a build here made a metadata.json.

    Args:
        sha256: of it, in hexadecimal.
    """
    return sha256 in _known()


def _known() -> frozenset[str]:
    path = cache_root() / _NAME
    return frozenset(path.read_text(encoding="ascii", errors="replace").splitlines()) if is_file(path) else frozenset()
