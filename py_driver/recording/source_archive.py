"""Source archives of the package index: looked up, fetched and unpacked once, and pinned from then on.

A fetched archive is recorded by its SHA-256, so an archive that was replaced on the index is an error. Later uses need
no network.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packaging.version import InvalidVersion, Version

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.entry import Entry, parse_entry
from py_driver.fetch.fetcher import MIRROR_VARIABLE, Fetcher
from py_driver.fetch.package_index import normalized
from py_driver.fetch.store import Store
from py_driver.fetch.transfer import Meter
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.recording.releases import Candidate, find
from py_driver.recording.requirement import parse_requirement
from py_driver.system.cache import SOURCES, UNPACKED, cache_root, storage_errors
from py_driver.system.files import is_file, write
from py_driver.system.scratch import scratch, settle, sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from py_driver.output import Output
    from py_driver.recording.requirement import Wanted

_PINS: Final = "pins"
_TREE: Final = "tree"
_MOST_BYTES: Final = 16 << 30
_BUILDS: Final = ("setup.py", "pyproject.toml")
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An unpacked source archive.

    Attributes:
        name: the normalized name of the project.
        version: the version of the release.
        directory: the directory with its setup.py or pyproject.toml; read-only.
        archive: file name, size and SHA-256.
    """

    name: str
    version: str
    directory: Path
    archive: Entry

    @property
    def requirement(self) -> str:
        """The requirement of exactly this archive, for the driver and for pip: `NAME==VERSION --hash=sha256:...`."""
        return f"{self.name}=={self.version} --hash=sha256:{self.archive.sha256}"


def fetch_source(
    requirement: str, output: Output, *, hashes: Iterable[str] = (), fetcher: Fetcher | None = None
) -> Source:
    """The sources of a release, fetched unless they are in the cache.

    Args:
        requirement: `NAME` for the newest release, `NAME==VERSION`, `NAME>=VERSION`; see `parse_requirement`.
        output: where progress and warnings about the release are shown.
        hashes: further allowed hashes, `sha256:...`, besides those in `requirement`.
        fetcher: the fetcher with the indexes (default: pip's), and the store for the archive.

    Raises:
        DriverError: USAGE or UNSUPPORTED for the requirement; NOT_FOUND_UPSTREAM if no index has such a release, or
            none with a source archive; NO_NETWORK; SET_UP; BAD_DIGEST if the archive is not the required one,
            or differs from an earlier one; FILE_MISSING if it has nothing to build; PATH_ESCAPES or UNSUPPORTED if it
            is unsafe to unpack; NO_SPACE or PERMISSION.
    """
    wanted = parse_requirement(requirement, hashes)
    root = cache_root() / SOURCES
    fetcher = Fetcher(Store(root)) if fetcher is None else fetcher
    pins = {Version(pin.version): pin for pin in _pins(root, wanted.name)}
    entry = _remembered(wanted, pins, fetcher) or _looked_up(wanted, pins, fetcher, output)
    archive = _fetched(entry, fetcher, output)
    directory = _project(_unpacked(root / UNPACKED, archive, entry), entry)
    _remember(root, entry)
    return Source(name=entry.name, version=entry.version, directory=directory, archive=entry)


def check_metadata(source: Source, name: str, version: str) -> None:
    """Check that an archive has the name and version of its file name, as pip does.

    Args:
        source: the archive.
        name: the project's name in the metadata by setup.py.
        version: the project's version in that metadata.

    Raises:
        DriverError: BAD_VALUE if they differ.
    """
    try:
        is_same = Version(version) == Version(source.version)
    except InvalidVersion:
        is_same = False
    if normalized(name) != source.name or not is_same:
        message = f"{source.archive.filename} is named {source.archive.label}, and its metadata says {name} {version}"
        raise error(Code.BAD_VALUE, message, help="get the sources from the project's repository, name the directory")


def _remembered(wanted: Wanted, pins: dict[Version, Entry], fetcher: Fetcher) -> Entry | None:
    """The archive of the exact release that is wanted, if it was fetched before and is in the store."""
    if not wanted.exact:
        return None
    found = [pins[version] for version in _fitting(wanted, pins) if _allows(wanted, pins[version])]
    return next((entry for entry in found if fetcher.store.has(entry)), None)


def _looked_up(wanted: Wanted, pins: dict[Version, Entry], fetcher: Fetcher, output: Output) -> Entry:
    """The archive of the newest matching release on the index.

    Without a network, the newest matching release that was fetched before.
    """
    try:
        candidate = find(wanted, fetcher)
    except DriverError as failure:
        pinned = [pins[version] for version in _fitting(wanted, pins) if _allows(wanted, pins[version])]
        entry = next((entry for entry in pinned if fetcher.store.has(entry)), None)
        if failure.diagnostics[0].code is not Code.NO_NETWORK or entry is None:
            raise
        output.warn(f"{failure.diagnostics[0].message}; {entry.label} is used, which was fetched before")
        return entry
    _say(candidate, output)
    entry = candidate.entry
    if not _allows(wanted, entry):
        demanded = " or ".join(f"sha256:{digest}" for digest in sorted(wanted.hashes))
        message = f"{entry.filename} on the package index has sha256:{entry.sha256}, and {demanded} is required"
        advice = f"find out why; if you have that archive, name its directory in {MIRROR_VARIABLE}"
        raise error(Code.BAD_DIGEST, message, help=advice)
    pin = pins.get(Version(entry.version))
    if pin and pin.sha256 != entry.sha256 and not wanted.hashes:
        message = (
            f"{entry.filename} on the package index is not the archive that was fetched before: it has "
            f"sha256:{entry.sha256}, and had sha256:{pin.sha256}"
        )
        advice = f"find out why; to build from the new one, require it: --hash=sha256:{entry.sha256}"
        raise error(Code.BAD_DIGEST, message, help=advice)
    return entry


def _fitting(wanted: Wanted, versions: Iterable[Version]) -> list[Version]:
    """The matching versions, the newest first."""
    return sorted(wanted.specifier.filter(versions), reverse=True)


def _allows(wanted: Wanted, entry: Entry) -> bool:
    return not wanted.hashes or entry.sha256 in wanted.hashes


def _say(candidate: Candidate, output: Output) -> None:
    """Warn of peculiarities of a release."""
    if candidate.yanked is not None:
        reason = f": {candidate.yanked}" if candidate.yanked else ""
        output.warn(f"{candidate.entry.label} was withdrawn by its authors{reason}")
    if candidate.unknown:
        output.warn(f"{candidate.unknown}; {candidate.entry.label} is the newest of the other indexes")
    if candidate.newer:
        output.warn(f"{candidate.newer} has no source archive; {candidate.entry.label} is the newest that has")


def _fetched(entry: Entry, fetcher: Fetcher, output: Output) -> Path:
    """The archive of an entry, fetched unless it is unchanged in the store."""
    if fetcher.store.has(entry):
        return fetcher.fetch(entry).path
    with output.task(f"fetching {entry.filename}") as task:
        received, size = 0, f"{max(entry.size / _MEGABYTE, 0.1):.1f}"

        def report(count: int) -> None:
            nonlocal received
            received += count
            task.update(f"{received / _MEGABYTE:.1f} of {size} MB")

        fetched = fetcher.fetch(entry, Meter(report=report))
        task.done(f"{size} MB, sha256:{entry.sha256}")
    return fetched.path


def _unpacked(parent: Path, archive: Path, entry: Entry) -> Path:
    """The directory of an unpacked archive, which never exists incomplete."""
    target = parent / entry.sha256
    if target.is_dir():
        return target
    with storage_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        with scratch(parent) as work:
            fresh = work / _TREE
            unpack(archive, entry, fresh, Selection(max_bytes=_MOST_BYTES))
            _protect(fresh)
            settle(fresh, target)
    return target


def _protect(directory: Path) -> None:
    """Make the contents of a directory read-only; it can still be removed."""
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = os.path.join(parent, name)  # noqa: PTH118  (os.walk's own strings, of thousands of files)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & ~0o222)  # noqa: PTH101  (likewise)


def _project(directory: Path, entry: Entry) -> Path:
    """The directory of the project: the only one at the top of the archive, or the archive's own.

    Raises:
        DriverError: FILE_MISSING if it has neither setup.py nor pyproject.toml.
    """
    below = sorted(path for path in directory.iterdir() if path.is_dir())
    for path in (*below, directory):
        if (len(below) == 1 or path == directory) and any(is_file(path / name) for name in _BUILDS):
            return path
    message = f"{entry.filename} has neither a setup.py nor a pyproject.toml at its top"
    raise error(Code.FILE_MISSING, message, help="get the sources from the project's repository, name the directory")


def _pin_of(root: Path, name: str, version: str) -> Path:
    return root / _PINS / name / f"{version}.json"


def _pins(root: Path, name: str) -> Iterator[Entry]:
    """The archives of a project that were fetched before; unreadable pins are ignored."""
    directory = root / _PINS / name
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else ():
        try:
            entry = parse_entry(json.loads(path.read_text(encoding="utf-8")))
            Version(entry.version)
        except (OSError, ValueError, InvalidVersion, DriverError):
            continue
        yield entry


def _remember(root: Path, entry: Entry) -> None:
    """Pin the archive of a release."""
    path, content = _pin_of(root, entry.name, entry.version), f"{json.dumps(entry.to_json(), indent=2)}\n".encode()
    if is_file(path) and path.read_bytes() == content:
        return
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write(path, content)
