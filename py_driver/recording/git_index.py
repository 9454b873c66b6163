"""The index of a git repository: the tracked files, without the times that `git status` writes into it.

setuptools-scm derives the version and the list of files from it. Format: gitformat-index(5).
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEX: Final = "index"
"""The name of the index in a `.git`."""

_HEADER: Final = struct.Struct(">4sII")
_SIGNATURE: Final = b"DIRC"
_VERSIONS: Final = (2, 3)
_STATED: Final = 24
"""The size of an entry's fields before its mode: the times and the inode of the file."""

_OWNER: Final = 12
"""The size of the fields between its mode and the digest: the owner, and the size of the file."""

_EXTENDED: Final = 0x40
_HASHES: Final = ("sha1", "sha256")


def index_digest(content: bytes) -> str:
    """The digest of the tracked files: their names, modes, contents and flags.

    An index in an unknown format, such as a split one, counts with all its bytes.

    Args:
        content: the content of the file.
    """
    total = hashlib.sha256()
    try:
        for part in _entries(content):
            total.update(part)
    except (ValueError, struct.error):
        return hashlib.sha256(content).hexdigest()
    return total.hexdigest()


def _entries(content: bytes) -> Iterator[bytes]:
    """The entries without the fields from the file system.

    Raises:
        ValueError: the format is unknown.
        struct.error: the format is unknown.
    """
    size = next((size for name in _HASHES if (size := _size_of_trailer(content, name))), 0)
    signature, version, count = _HEADER.unpack_from(content)
    if not size or signature != _SIGNATURE or version not in _VERSIONS:
        raise ValueError(version)
    at = _HEADER.size
    for _ in range(count):
        digest = at + _STATED + 4 + _OWNER
        flags = digest + size
        name = flags + (4 if content[flags] & _EXTENDED else 2)
        end = content.index(b"\0", name)
        yield content[at + _STATED : at + _STATED + 4] + content[digest : end + 1]
        at += (end - at) // 8 * 8 + 8
    while at < len(content) - size:
        if content[at : at + 1].islower():  # an extension that changes what the entries mean
            raise ValueError(content[at : at + 4])
        at += 8 + struct.unpack_from(">I", content, at + 4)[0]


def _size_of_trailer(content: bytes, name: str) -> int:
    """The size of the digest at the end of an index; 0 if it is of another algorithm."""
    size = hashlib.new(name, usedforsecurity=False).digest_size
    digest = hashlib.new(name, content[:-size], usedforsecurity=False).digest()
    return size if content[-size:] == digest else 0
