"""What of `build/` is published: the files that each variant says it has, and nothing that lies beside them."""

from __future__ import annotations

import hashlib
import io
import os
import re
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from py_driver import __version__
from py_driver.building.made import was_made, was_made_from_others
from py_driver.building.selection import made_from
from py_driver.building.variant_dir import (
    BUILD,
    BYTECODE,
    changed,
    directory_of,
    files_of,
    read_metadata,
    remove_bytecode,
)
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.manifest.keys import REPO_ID
from py_driver.plan.metadata import METADATA, chosen
from py_driver.system.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.lock import Lock
    from py_driver.plan.plan import Plan, Variant

_SHOWN = 5
_PART = 1 << 20

BUILDER = f"rules_torch_kernels {__version__}"
"""What metadata.json says of the version of the rules that built it."""


class File(NamedTuple):
    """A file to publish.

    Attributes:
        path: in the repository: `build/<variant>/<name>`.
        content: its bytes, or the file that has them.
        size: in bytes.
        sha256: of the content, in hexadecimal; by this the Hub knows a large file.
        blob: git's name of the content, in hexadecimal; by this the Hub knows a small file.
    """

    path: str
    content: bytes | Path
    size: int
    sha256: str
    blob: str


def make_file(path: str, content: bytes | Path) -> File:
    """A file to publish, looked at once.

    Args:
        path: in the repository.
        content: its bytes, or the file that has them.

    Raises:
        DriverError: PERMISSION if it cannot be read.
    """
    if isinstance(content, bytes):
        return _digested(path, content, len(content), io.BytesIO(content))
    with reading(content), content.open("rb") as stream:
        return _digested(path, content, os.fstat(stream.fileno()).st_size, stream)


def _digested(path: str, content: bytes | Path, size: int, stream: IO[bytes]) -> File:
    sha256, blob = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    while part := stream.read(_PART):
        sha256.update(part)
        blob.update(part)
    return File(path=path, content=content, size=size, sha256=sha256.hexdigest(), blob=blob.hexdigest())


class BuiltVariant(NamedTuple):
    """A variant in `build/`.

    Attributes:
        name: its identifier.
        metadata: what its metadata.json says.
        files: its files, metadata.json among them and its signature if there is one, sorted.
    """

    name: str
    metadata: Mapping[str, Any]
    files: tuple[File, ...]


class HubFile(NamedTuple):
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
        DriverError: MISSING_KEY if nobody says which repository; USAGE if that is no name of one.
    """
    where = repo_id or manifest.hub.repo_id
    if not where:
        advice = 'name it with --repo-id, or write [general.hub] repo-id = "owner/name"'
        raise error(Code.MISSING_KEY, "no repository on the Hub is given", help=advice)
    if not re.fullmatch(REPO_ID, where):
        raise error(
            Code.USAGE, f"`{where}` is not the name of a repository on the Hub", help="names look like `owner/name`"
        )
    return where, branch or manifest.hub.branch or f"v{manifest.version}"


def read_variants(directory: Path, plan: Plan, chosen: Iterable[Variant]) -> list[BuiltVariant]:
    """Variants of a project, if each is as it was built and was built from what the project is now.

    Args:
        directory: of the project.
        plan: of the project.
        chosen: variants of it that are in its `build/`, or slices beside that.
        lock: what is pinned.

    Raises:
        DriverError: CHANGED_BUILD, one diagnostic for each variant that is not what its metadata.json says, or is of
            other sources; PERMISSION if something cannot be read.
    """
    found, wrong = [], []
    contents = _Contents(directory)
    for variant in chosen:
        path = directory_of(directory, variant)
        with reading(path):
            metadata, files = read_metadata(path) or {}, _files(path)
        digests = {name: file.sha256 for name, file in files.items()}
        problems = list(changed(path, metadata, digests)) or list(_stale(variant, plan, metadata, contents))
        if problems:
            more = f"; {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
            message = f"{path} has changed since it was built: {'; '.join(problems[:_SHOWN])}{more}"
            wrong.append(Diagnostic(code=Code.CHANGED_BUILD, message=message, help="build it again: driver build"))
            continue
        found.append(
            BuiltVariant(
                name=variant.identifier, metadata=metadata, files=tuple(file for _, file in sorted(files.items()))
            )
        )
    if wrong:
        raise DriverError(wrong)
    return found


def read_to_ship(directory: Path, plan: Plan, chosen: Sequence[Variant], lock: Lock) -> list[BuiltVariant]:
    """Variants of a project that may leave this machine: a build here has made each, as it is, from what the lock pins.

    A changed file with a changed digest looks like what a build makes. What Python has left there would run in the
    place of what was looked at; it is removed.

    Args:
        directory: of the project.
        plan: of the project.
        chosen: variants of it that are in its `build/`, or slices beside that.
        lock: what is pinned.

    Raises:
        DriverError: CHANGED_BUILD, one diagnostic for each that is another; see `read_variants`.
    """
    for variant in chosen:
        remove_bytecode(directory_of(directory, variant))
    built, wrong = read_variants(directory, plan, chosen), []
    for variant, shipped in zip(chosen, built, strict=True):
        [metadata] = [file for file in shipped.files if file.path == f"{BUILD}/{shipped.name}/{METADATA}"]
        if was_made(metadata.sha256, made_from(plan, variant, shipped.metadata, lock)):
            continue
        path = directory_of(directory, variant)
        message = f"no build here made {path} as it is, nor did `driver verify` see it"
        if was_made_from_others(metadata.sha256):
            message = f"{path} was made from other archives (compilers, torch, libraries) than the lock has now"
        advice = "build it again: driver build; or compare it with a new build: driver verify"
        wrong.append(Diagnostic(code=Code.CHANGED_BUILD, message=message, help=advice))
    if wrong:
        raise DriverError(wrong)
    return built


def read_built(path: Path) -> BuiltVariant:
    """A variant that was built just now, as it is.

    Args:
        path: its directory, which has the name of its identifier.

    Raises:
        DriverError: PERMISSION if something cannot be read.
    """
    with reading(path):
        metadata, files = read_metadata(path) or {}, _files(path)
    return BuiltVariant(name=path.name, metadata=metadata, files=tuple(file for _, file in sorted(files.items())))


def unique_ids(directory: Path, plan: Plan) -> dict[str, str]:
    """The unique ids of a project's builds, by the names of the identities.

    Raises:
        DriverError: PERMISSION if a file cannot be read.
    """
    contents = _Contents(directory)
    return {identity.name: _unique_id(plan, identity.name, contents) for identity in plan.identities}


def _unique_id(plan: Plan, name: str, contents: Mapping[str, bytes]) -> str:
    identity = next(identity for identity in plan.identities if identity.name == name)
    return identity.unique_id(plan.module, contents)


class _Contents(dict[str, bytes]):
    """The contents of a project's files, each read when it is asked for first."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, name: str) -> bytes:
        with reading(self._directory / name):
            self[name] = (self._directory / name).read_bytes()
        return self[name]


def _files(directory: Path) -> dict[str, File]:
    """The regular files of a variant; links, and what Python leaves, are left out."""
    found = {name: path for name, path in files_of(directory).items() if BYTECODE not in name.split("/")}
    regular = {name: path for name, path in found.items() if path.is_file() and not path.is_symlink()}
    return {name: make_file(f"{BUILD}/{directory.name}/{name}", path) for name, path in regular.items()}


def _stale(variant: Variant, plan: Plan, metadata: Mapping[str, Any], contents: Mapping[str, bytes]) -> Iterator[str]:
    """What a variant was built from that the project is not, or no longer."""
    expected = {
        **variant.metadata,
        "id": _unique_id(plan, variant.identity, contents),
        "provenance": {"kernel-builder": {"version": BUILDER}},
    }
    choices = chosen(metadata)
    stated = {key: value for key, value in metadata.items() if key != "digest" and key not in choices}
    for key in sorted({*expected, *stated}):
        if stated.get(key) != expected.get(key):
            yield "its sources have changed since" if key == "id" else f"its `{key}` belongs to another build"


def changes(wanted: Iterable[File], there: Iterable[HubFile], places: Iterable[str]) -> Changes:
    """What makes a branch of a repository have some files.

    Args:
        wanted: all files that it is to have below `places`.
        there: the files that it has.
        places: directories; what is there and not wanted is deleted, but for the signature of a metadata.json that is
            the same. Other files stay as they are.
    """
    has = {hub_file.path: hub_file for hub_file in there}
    wants = {file.path: file for file in wanted}
    added = tuple(file for path, file in wants.items() if not _is_same(file, has.get(path)))
    below = tuple(f"{directory}/" for directory in places)
    signed = {f"{path}.sigstore" for path, file in wants.items() if _is_same(file, has.get(path))}
    deleted = tuple(sorted(path for path in has if path.startswith(below) and path not in {*wants, *signed}))
    return Changes(added=added, deleted=deleted, same=len(wants) - len(added))


def _is_same(file: File, remote: HubFile | None) -> bool:
    if remote is None:
        return False
    return remote.sha256 == file.sha256 if remote.sha256 else remote.blob == file.blob
