"""What of `build/` is published: the files that each variant says it has, and nothing that lies beside them."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.collect import BUILD, METADATA, SIGNATURE
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.manifest.model import UNIVERSAL
from py_driver.variants.names import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from py_driver.manifest.model import Manifest

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
        files: its files, metadata.json among them and its signature if there is one, sorted.
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


def target(manifest: Manifest, repo_id: str, branch: str) -> tuple[str, str]:
    """The repository and the branch of a project's variants.

    Args:
        manifest: of the project.
        repo_id: instead of what it says, if not empty.
        branch: instead of what it says or `v<version>`, if not empty.

    Raises:
        DriverError: MISSING_KEY if nobody says which repository.
    """
    where = repo_id or manifest.hub.repo_id
    if not where:
        advice = 'name it with --repo-id, or write [general.hub] repo-id = "owner/name"'
        raise error(Code.MISSING_KEY, "nobody says which repository on the Hub", help=advice)
    return where, branch or manifest.hub.branch or f"v{manifest.version}"


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
        metadata, files = read_metadata(place), dict(_files(place))
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


def read_metadata(place: Path) -> dict[str, Any]:
    """What the metadata.json of a variant says; nothing if it cannot be read."""
    try:
        value = json.loads((place / METADATA).read_text(encoding="utf-8"))
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
        yield f"{METADATA} is not for {family}"
    if not isinstance(metadata.get("id"), str):
        yield f"{METADATA} has no id"
    digest = metadata.get("digest")
    stated = digest.get("files") if isinstance(digest, dict) and digest.get("algorithm") == "sha256" else None
    if not isinstance(stated, dict):
        yield f"{METADATA} names no files"
        return
    yield from (f"{path.relative_to(place)} is a link" for path in sorted(place.rglob("*")) if path.is_symlink())
    if SIGNATURE in files and not _signs(files[SIGNATURE], files[METADATA]):
        yield f"{SIGNATURE} is no sigstore bundle of {METADATA}"
    for name in sorted({*stated, *files} - {METADATA, SIGNATURE}):
        if name not in files:
            yield f"{name} is missing"
        elif name not in stated:
            yield f"{name} was not built"
        elif stated[name] != _base64(files[name]):
            yield f"{name} has other bytes"


def _signs(bundle: bytes, content: bytes) -> bool:
    """Whether a sigstore bundle (v0.3, of a message) says that it is of some bytes; who signed is not looked at."""
    try:
        digest = json.loads(bundle)["messageSignature"]["messageDigest"]
        return bool(digest == {"algorithm": "SHA2_256", "digest": _base64(content)})
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _base64(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def changes(wanted: Iterable[File], there: Iterable[Remote], places: Iterable[str]) -> Changes:
    """What makes a branch of a repository have some files.

    Args:
        wanted: all files that it is to have below `places`.
        there: the files that it has.
        places: directories; what is there and not wanted is deleted, but for the signature of a metadata.json that is
            the same. Other files stay as they are.
    """
    has = {one.path: one for one in there}
    wants = {one.path: one for one in wanted}
    added = tuple(file for path, file in wants.items() if not _is_same(file, has.get(path)))
    below = tuple(f"{place}/" for place in places)
    signed = {f"{path}.sigstore" for path, file in wants.items() if _is_same(file, has.get(path))}
    deleted = tuple(sorted(path for path in has if path.startswith(below) and path not in {*wants, *signed}))
    return Changes(added=added, deleted=deleted, same=len(wants) - len(added))


def _is_same(file: File, remote: Remote | None) -> bool:
    if remote is None:
        return False
    return remote.sha256 == file.sha256 if remote.sha256 else remote.blob == file.blob
