"""The files of `build/` that are published: those that each variant's metadata lists, and no others."""

from __future__ import annotations

import hashlib
import io
import os
import re
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from py_driver import __version__
from py_driver.building.made import failed_load, was_made, was_made_from_others
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
from py_driver.manifest.keys import GIT_REF, REPO_ID
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
"""The version of the rules, as metadata.json records it."""


class File(NamedTuple):
    """A file to publish.

    Attributes:
        path: its path in the repository: `build/<variant>/<name>`.
        content: its bytes, or a file with them.
        size: the size in bytes.
        sha256: the hexadecimal SHA-256 of the content; the Hub identifies large files by it.
        blob: git's object id of the content, in hexadecimal; the Hub identifies small files by it.
    """

    path: str
    content: bytes | Path
    size: int
    sha256: str
    blob: str


def make_file(path: str, content: bytes | Path) -> File:
    """A file to publish, read once.

    Args:
        path: its path in the repository.
        content: its bytes, or a file with them.

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
        metadata: its metadata.json.
        files: its files, sorted, with metadata.json and the signature if it has one.
    """

    name: str
    metadata: Mapping[str, Any]
    files: tuple[File, ...]


class HubFile(NamedTuple):
    """A file on the Hub.

    Attributes:
        path: its path in the repository.
        blob: git's object id: of the content, or for a large file of its pointer.
        sha256: the digest of a large file's content; empty for a small one.
    """

    path: str
    blob: str
    sha256: str = ""


class Changes(NamedTuple):
    """The changes of a commit.

    Attributes:
        added: files that are new or have other bytes.
        deleted: paths of files that rebuilt variants no longer have.
        same: how many files are unchanged.
    """

    added: tuple[File, ...]
    deleted: tuple[str, ...]
    same: int


def target(manifest: Manifest, repo_id: str, branch: str) -> tuple[str, str]:
    """The repository and the branch of a project's variants.

    Args:
        manifest: the manifest of the project.
        repo_id: the repository, instead of the manifest's if not empty.
        branch: the branch, instead of the manifest's or `v<version>` if not empty.

    Raises:
        DriverError: MISSING_KEY if no repository is known; USAGE if its name, or that of the branch, is not valid.
    """
    where = repo_id or manifest.hub.repo_id
    if not where:
        advice = 'name it with --repo-id, or write [general.hub] repo-id = "owner/name"'
        raise error(Code.MISSING_KEY, "no repository on the Hub is given", help=advice)
    if not re.fullmatch(REPO_ID, where):
        raise error(
            Code.USAGE, f"`{where}` is not the name of a repository on the Hub", help="names look like `owner/name`"
        )
    if branch and not re.fullmatch(GIT_REF, branch):
        raise error(Code.USAGE, f"`{branch}` is not the name of a branch", help="such as v1")
    return where, branch or manifest.hub.branch or f"v{manifest.version}"


def read_variants(directory: Path, plan: Plan, chosen: Iterable[Variant]) -> list[BuiltVariant]:
    """Read variants of a project, after checking that each is as built, and from the project's present sources.

    Args:
        directory: the directory of the project.
        plan: the plan of the project.
        chosen: its variants in `build/`, or slices in `build-slices/`.
        lock: the pinned archives.

    Raises:
        DriverError: CHANGED_BUILD, with a diagnostic for each variant that differs from its metadata.json or from the
            sources; PERMISSION if a file cannot be read.
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
    """Read variants that may leave this machine: built here, unchanged since, from the lock's archives; no load failed.

    The record of builds is needed because a changed file with a changed digest looks like a build. Python's bytecode in
    the directory is removed, since it would run instead of the checked files.

    Args:
        directory: the directory of the project.
        plan: the plan of the project.
        chosen: its variants in `build/`, or slices in `build-slices/`.
        lock: the pinned archives.

    Raises:
        DriverError: CHANGED_BUILD, with a diagnostic for each variant that is not such a build; LOAD_FAILED for each
            that could not be loaded; see `read_variants`.
    """
    for variant in chosen:
        remove_bytecode(directory_of(directory, variant))
    built, wrong = read_variants(directory, plan, chosen), []
    for variant, shipped in zip(chosen, built, strict=True):
        [metadata] = [file for file in shipped.files if file.path == f"{BUILD}/{shipped.name}/{METADATA}"]
        if was_made(metadata.sha256, made_from(plan, variant, shipped.metadata, lock)):
            if failure := failed_load(metadata.sha256, shipped.name):
                advice = "mend it and build again; `driver build` loads it again, too"
                wrong.append(Diagnostic(code=Code.LOAD_FAILED, message=failure, help=advice))
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
    """Read a variant that was just built, without checks.

    Args:
        path: its directory, named like its identifier.

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
    """The contents of a project's files, each read at its first use."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, name: str) -> bytes:
        with reading(self._directory / name):
            self[name] = (self._directory / name).read_bytes()
        return self[name]


def _files(directory: Path) -> dict[str, File]:
    """The regular files of a variant, without links and Python's bytecode."""
    found = {name: path for name, path in files_of(directory).items() if BYTECODE not in name.split("/")}
    regular = {name: path for name, path in found.items() if path.is_file() and not path.is_symlink()}
    return {name: make_file(f"{BUILD}/{directory.name}/{name}", path) for name, path in regular.items()}


def _stale(variant: Variant, plan: Plan, metadata: Mapping[str, Any], contents: Mapping[str, bytes]) -> Iterator[str]:
    """The differences between a variant's metadata and the metadata of a build from the present sources."""
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
    """The changes that give a branch of a repository the wanted files.

    Args:
        wanted: all files that it needs below `places`.
        there: the present files.
        places: directories; a present file there that is not wanted is deleted, except the signature of a metadata.json
            that stays the same. Other files stay.
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
