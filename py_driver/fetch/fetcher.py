"""Fetching: an entry into the store, from the first origin that has it; many entries at once."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.debian import APT_HELPER, apt_download, debian_archives
from py_driver.fetch.download import copy, download, sha256_of
from py_driver.fetch.entry import Entry, Origin
from py_driver.fetch.http_client import Http
from py_driver.fetch.package_index import PackageIndex, local_path
from py_driver.fetch.pip_settings import PipSettings, read_pip_settings
from py_driver.fetch.ranged_file import NoRangesError, RangedFile
from py_driver.fetch.store import Store
from py_driver.fetch.transfer import Meter, OriginError
from py_driver.fetch.wheel_members import check_members, write_members
from py_driver.system.cache import cache_root

MIRROR_VARIABLE: Final = "RULES_TORCH_KERNELS_MIRROR"
"""Environment variable with a directory of archives, by file name, that is searched first."""

Source = Literal["store", "mirror", "network"]

_WORDS: Final = {
    Origin.PYTHON_INDEX: ("the Python package index", "pip"),
    Origin.DEBIAN: ("the Debian archive", "apt"),
    Origin.URL: ("its vendor's server", "the proxy"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """An entry in the store.

    Attributes:
        entry: the entry.
        path: the archive, or the bundle of its required members.
        source: its source: the store, a file on this machine, or the network.
        bytes_fetched: the bytes from the network for it, including index pages.
        seconds: the duration.
        replaced: the error of the store's earlier bytes; empty if there was none.
    """

    entry: Entry
    path: Path
    source: Source
    bytes_fetched: int = 0
    seconds: float = 0.0
    replaced: str = ""

    @property
    def warning(self) -> str:
        """The warning about replaced bytes."""
        return f"{self.entry.label}: {self.replaced}; it was fetched again"


class Fetcher:
    """Brings entries into a store; may be shared by threads.

    Args:
        store: the store (default: the one in this user's cache).
        mirror: the directory of archives to search first (default: the environment's, if any).
        settings: the Python package indexes (default: pip's, when one is needed).

    Attributes:
        store: the store.
        mirror: the directory of archives to search first; or None.
    """

    def __init__(
        self, store: Store | None = None, mirror: Path | None = None, settings: PipSettings | None = None
    ) -> None:
        self.store = Store(cache_root()) if store is None else store
        named = os.environ.get(MIRROR_VARIABLE)
        self.mirror = Path(named) if mirror is None and named else mirror
        self._settings = settings
        self._guard = threading.Lock()
        self._made: tuple[Http, PackageIndex] | None = None
        self._archives: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    @property
    def http(self) -> Http:
        """The HTTP client, with pip's settings.

        Raises:
            DriverError: pip cannot report its settings (SET_UP).
        """
        return self._python()[0]

    @property
    def index(self) -> PackageIndex:
        """The user's Python package indexes.

        Raises:
            DriverError: pip cannot report its settings (SET_UP).
        """
        return self._python()[1]

    def fetch(self, entry: Entry, meter: Meter | None = None) -> Fetched:
        """Bring an entry into the store, unless the store has it with the locked digest, which is checked.

        Args:
            entry: the entry.
            meter: counts bytes and can stop this.

        Raises:
            DriverError: no origin has it (NOT_FOUND_UPSTREAM), can be reached (NO_NETWORK) or has the right bytes
                (BAD_DIGEST); the machine has no origin of that kind (SET_UP, NOT_DEBIAN); the store cannot be
                written (NO_SPACE, PERMISSION); stopped (INTERRUPTED).
        """
        start = time.monotonic()
        meter = Meter() if meter is None else meter
        source: Source = "store"
        path = self.store.path(entry)
        if flaw := _flaw(path, entry):
            with self.store.lock(entry.key, meter.stop):
                if flaw := _flaw(path, entry):  # another process may have fetched it
                    source = self._bring(entry, path, meter, flaw)
        return Fetched(
            entry=entry,
            path=path,
            source=source,
            bytes_fetched=meter.bytes,
            seconds=time.monotonic() - start,
            replaced=flaw.reason if flaw and flaw.code is Code.BAD_DIGEST else "",
        )

    def _python(self) -> tuple[Http, PackageIndex]:
        """Ask pip for its settings, once."""
        with self._guard:
            if self._made is None:
                settings = read_pip_settings() if self._settings is None else self._settings
                http = Http(settings.http)
                self._made = http, PackageIndex(settings, http)
            return self._made

    def _debian(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ask apt for its archives, once."""
        with self._guard:
            if self._archives is None:
                self._archives = debian_archives()
            return self._archives

    def _bring(self, entry: Entry, path: Path, meter: Meter, flaw: OriginError) -> Source:
        """Try the origins in order; their failures decide the error. The store's file stays until one succeeds."""
        failures = _Failures()
        if self.mirror is not None and self._from_mirror(self.mirror, entry, path, failures, meter):
            return "mirror"
        takers = {
            Origin.PYTHON_INDEX: self._from_index,
            Origin.DEBIAN: self._from_debian,
            Origin.URL: self._from_vendor,
        }
        source = takers[entry.origin](entry, path, failures, meter)
        if source is None:
            raise _nowhere(entry, failures.met, flaw)
        return source

    def _from_mirror(self, mirror: Path, entry: Entry, path: Path, failures: _Failures, meter: Meter) -> bool:
        """Get the bundle, or the archive by its path or its name, from the mirror directory."""
        candidates = (mirror / entry.mirror_name, mirror / entry.filename, mirror / entry.basename)
        for found in (file for file in candidates if file.is_file()):
            with failures:
                self._from_file(found, entry, path, meter)
                return True
        if not failures.met:
            failures.met.append(OriginError(Code.NOT_FOUND_UPSTREAM, f"{mirror} does not have {entry.mirror_name}"))
        return False

    def _from_index(self, entry: Entry, path: Path, failures: _Failures, meter: Meter) -> Source | None:
        """Get a wheel from the first link with its name."""
        http, index = self._python()
        seen = False
        for link in index.links(entry.name, meter, failures.met):
            if link.filename != entry.filename:
                continue
            seen = True
            with failures:
                if link.sha256 and link.sha256 != entry.sha256:
                    what = f"{link.origin} lists {link.filename} with the SHA-256 {link.sha256}"
                    raise OriginError(Code.BAD_DIGEST, f"{what}, the lock has {entry.sha256}")
                if (local := link.local) is not None:
                    self._from_file(local, entry, path, meter)
                    return "mirror"
                self._from_url(link.url, entry, path, meter, http)
                return "network"
        if not seen and not any(failure.code is Code.NO_NETWORK for failure in failures.met):
            failures.met.append(OriginError(Code.NOT_FOUND_UPSTREAM, "none of pip's indexes and find-links lists it"))
        return None

    def _from_debian(self, entry: Entry, path: Path, failures: _Failures, meter: Meter) -> Source | None:
        """Get a package from the archives in the environment, then from apt's."""
        own, apt = self._debian()
        for base in (*own, *apt):
            with failures:
                if (local := local_path(base)) is not None:
                    self._from_file(local / entry.filename, entry, path, meter)
                    return "mirror"
                url = f"{base}/{entry.filename}"
                if base not in own and APT_HELPER.exists():
                    partial = self.store.partial(f"{entry.key}.apt")
                    apt_download(url, entry, partial, meter)
                else:
                    partial = self.store.partial(entry.key)
                    download(url, entry, partial, Http(), meter)
                self.store.commit(partial, path)
                return "network"
        return None

    def _from_vendor(self, entry: Entry, path: Path, failures: _Failures, meter: Meter) -> Source | None:
        """Get an archive from the address in the lock, with pip's proxy and certificates if there is a pip."""
        with failures:
            self._from_url(entry.url, entry, path, meter, self._vendor_http())
            return "network"
        return None

    def _vendor_http(self) -> Http:
        """The HTTP client for a vendor's server: with pip's settings, or with defaults on a machine without pip."""
        try:
            return self.http
        except DriverError:
            return Http()

    def _from_file(self, file: Path, entry: Entry, path: Path, meter: Meter) -> None:
        """Get an archive on this machine."""
        if entry.members_only:
            self._members_from_file(file, entry, path, meter)
            return
        partial = self.store.partial(f"{entry.key}.copy")
        copy(file, entry, partial, meter)
        self.store.commit(partial, path)

    def _from_url(self, url: str, entry: Entry, path: Path, meter: Meter, http: Http) -> None:
        """Get an archive from a server, completely or in part as the entry requires."""
        if not entry.members_only:
            partial = self.store.partial(entry.key)
            download(url, entry, partial, http, meter)
            self.store.commit(partial, path)
            return
        archive = self.store.archive(entry.sha256)
        if archive.exists():
            with suppress(OriginError):  # it is damaged: a use of the complete archive fetches it again
                self._members_from_file(archive, entry, path, meter)
                return
        partial = self.store.partial(entry.key)
        try:
            write_members(RangedFile(url, entry.size, http, meter), entry, partial, meter)
        except NoRangesError:
            partial = self.store.partial(entry.sha256)
            download(url, entry, partial, http, meter)
            self.store.commit(partial, archive)
            self._members_from_file(archive, entry, path, meter)
        else:
            self.store.commit(partial, path)

    def _members_from_file(self, file: Path, entry: Entry, path: Path, meter: Meter) -> None:
        """Get the required members from a complete wheel, or a bundle of them, on this machine."""
        partial = self.store.partial(entry.key)
        try:
            with file.open("rb") as wheel:
                write_members(wheel, entry, partial, meter)
        except OSError as wrong:
            raise OriginError(Code.NOT_FOUND_UPSTREAM, f"{file}: {wrong.strerror}") from wrong
        self.store.commit(partial, path)


class _Failures:
    """The failures of origins; as a context, it catches a failure so that the next origin is tried."""

    def __init__(self) -> None:
        self.met: list[OriginError] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> bool:
        if not isinstance(failure, OriginError):
            return False
        self.met.append(failure)
        return True


def _flaw(path: Path, entry: Entry) -> OriginError | None:
    """Why the store's file cannot be used: it is missing (NOT_FOUND_UPSTREAM), or differs (BAD_DIGEST)."""
    try:
        if entry.members_only:
            check_members(path, entry)
        elif (actual := sha256_of(path)) != entry.sha256:
            return OriginError(Code.BAD_DIGEST, f"{path} has the SHA-256 {actual}, the lock has {entry.sha256}")
    except OriginError as failure:
        return OriginError(Code.BAD_DIGEST, f"{path}: {failure.reason}")
    except (FileNotFoundError, NotADirectoryError):
        return OriginError(Code.NOT_FOUND_UPSTREAM, f"{path} does not exist")
    except OSError as wrong:
        return OriginError(Code.BAD_DIGEST, f"{path} cannot be read: {wrong.strerror}")
    return None


def _nowhere(entry: Entry, failures: list[OriginError], flaw: OriginError) -> DriverError:
    """The error for an entry that no origin delivered: the most serious failure of the origins and the store."""
    codes = {failure.code for failure in failures}
    reasons = "; ".join(dict.fromkeys(failure.reason for failure in failures))
    kind, tool = _WORDS[entry.origin]
    mirror = f"name a directory that has {entry.mirror_name} in {MIRROR_VARIABLE}"
    if flaw.code is Code.BAD_DIGEST:
        return error(
            Code.BAD_DIGEST,
            f"{entry.label}: the archive in the store does not match the lock: {flaw.reason}; and it could not be "
            f"fetched again: {reasons}",
            help=f"it has changed on the disk; check the network and {tool}'s configuration, or {mirror}",
        )
    if Code.BAD_DIGEST in codes:
        return error(
            Code.BAD_DIGEST,
            f"{entry.label}: the archive from {kind} does not match the lock: {reasons}",
            help=f"it was replaced there, or a proxy changed it; if that is intended, update the lock; else {mirror}",
        )
    if Code.NO_NETWORK in codes:
        return error(
            Code.NO_NETWORK,
            f"cannot fetch {entry.label} ({entry.basename}) from {kind}: {reasons}",
            help=f"check the network and {tool}'s configuration, or {mirror}",
        )
    return error(
        Code.NOT_FOUND_UPSTREAM,
        f"{entry.label}: {entry.basename} is not on {kind}: {reasons or 'no server offers it'}",
        help=f"the origin may have removed this version: update the lock, or {mirror}",
    )
