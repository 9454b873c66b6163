"""What of `build/` is published: the files that each variant says it has, and nothing that lies beside them."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.collect import BUILD
from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.manifest.model import UNIVERSAL
from py_driver.variants.names import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_METADATA = "metadata.json"
_CACHE = "__pycache__"
"""What Python leaves where it loads a variant; it is no part of it."""

_SHOWN = 5


class File(NamedTuple):
    """A file to publish.

    Attributes:
        path: in the repository: `build/<variant>/<name>`.
        content: its bytes.
    """

    path: str
    content: bytes

    @property
    def sha256(self) -> str:
        """In hexadecimal; by this the Hub knows a large file."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def blob(self) -> str:
        """Git's name of the content, in hexadecimal; by this the Hub knows a small file."""
        head = f"blob {len(self.content)}\0".encode()
        return hashlib.sha1(head + self.content, usedforsecurity=False).hexdigest()


class Built(NamedTuple):
    """A variant in `build/`.

    Attributes:
        name: its identifier.
        metadata: what its metadata.json says.
        files: its files, metadata.json among them, sorted.
    """

    name: str
    metadata: Mapping[str, Any]
    files: tuple[File, ...]


class Remote(NamedTuple):
    """A file as the Hub has it.

    Attributes:
        path: in the repository.
        blob: git's name of what git has there: the content, or of a large file a pointer.
        sha256: of the content of a large file; empty for a small one.
    """

    path: str
    blob: str
    sha256: str = ""


class Changes(NamedTuple):
    """What a commit does.

    Attributes:
        added: files that are new or have other bytes.
        deleted: paths of files that rebuilt variants no longer have.
        same: how many files are there already.
    """

    added: tuple[File, ...]
    deleted: tuple[str, ...]
    same: int


def read_variants(directory: Path, names: Iterable[str]) -> list[Built]:
    """The variants of a project, if each is as it was built.

    Args:
        directory: of the project.
        names: identifiers of variants in its `build/`.

    Raises:
        DriverError: CHANGED_BUILD, one diagnostic for each variant that is not what its metadata.json says.
    """
    found, wrong = [], []
    for name in names:
        place = directory / BUILD / name
        metadata, files = _metadata(place), dict(_files(place))
        if problems := list(_problems(place, metadata, files)):
            more = f"; {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
            message = f"{place} is not as it was built: {'; '.join(problems[:_SHOWN])}{more}"
            wrong.append(Diagnostic(code=Code.CHANGED_BUILD, message=message, help="build it again: driver build"))
            continue
        published = tuple(File(f"{BUILD}/{name}/{path}", content) for path, content in sorted(files.items()))
        found.append(Built(name=name, metadata=metadata, files=published))
    if wrong:
        raise DriverError(wrong)
    return found


def _metadata(place: Path) -> dict[str, Any]:
    """What metadata.json says; nothing if it cannot be read."""
    try:
        value = json.loads((place / _METADATA).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    """The regular files of a variant; links are left out."""
    for path in place.rglob("*"):
        relative = path.relative_to(place)
        if _CACHE not in relative.parts and path.is_file() and not path.is_symlink():
            yield relative.as_posix(), path.read_bytes()


def _problems(place: Path, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> Iterator[str]:
    """What is not as metadata.json says."""
    family, backend = parse(place.name).family, metadata.get("backend")
    if not isinstance(backend, dict) or backend.get("type") != ("cpu" if family == UNIVERSAL else family):
        yield f"{_METADATA} is not for {family}"
    if not isinstance(metadata.get("id"), str):
        yield f"{_METADATA} has no id"
    digest = metadata.get("digest")
    stated = digest.get("files") if isinstance(digest, dict) and digest.get("algorithm") == "sha256" else None
    if not isinstance(stated, dict):
        yield f"{_METADATA} names no files"
        return
    for path in sorted(place.rglob("*")):
        if path.is_symlink():
            yield f"{path.relative_to(place)} is a link"
    for name in sorted({*stated, *files} - {_METADATA}):
        if name not in files:
            yield f"{name} is missing"
        elif name not in stated:
            yield f"{name} was not built"
        elif stated[name] != base64.b64encode(hashlib.sha256(files[name]).digest()).decode():
            yield f"{name} has other bytes"


def changes(wanted: Iterable[File], there: Iterable[Remote], places: Iterable[str]) -> Changes:
    """What makes a branch of a repository have some files.

    Args:
        wanted: all files that it is to have below `places`.
        there: the files that it has.
        places: directories; what is there and not wanted is deleted. Other files stay as they are.
    """
    has = {one.path: one for one in there}
    wants = {one.path: one for one in wanted}
    added = tuple(file for path, file in wants.items() if not _is_same(file, has.get(path)))
    below = tuple(f"{place}/" for place in places)
    deleted = tuple(sorted(path for path in has if path.startswith(below) and path not in wants))
    return Changes(added=added, deleted=deleted, same=len(wants) - len(added))


def _is_same(file: File, remote: Remote | None) -> bool:
    if remote is None:
        return False
    return remote.sha256 == file.sha256 if remote.sha256 else remote.blob == file.blob
