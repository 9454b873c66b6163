"""Releases of a project on the package index that have a source archive."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.version import InvalidVersion, Version

from py_driver.errors import Code, error
from py_driver.fetch.package_index import Link, normalized
from py_driver.fetch.resolution import entry_of
from py_driver.fetch.transfer import Meter, OriginError, retried
from py_driver.output import counted
from py_driver.spelling import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py_driver.errors import DriverError
    from py_driver.fetch.entry import Entry
    from py_driver.fetch.fetcher import Fetcher
    from py_driver.recording.requirement import Wanted

_SDISTS: Final = (".tar.gz", ".zip")
"""The suffixes of source archives, the preferred first (PEP 527, PEP 625)."""

_WHEEL: Final = ".whl"


class Candidate(NamedTuple):
    """The source archive of a release.

    Attributes:
        entry: the archive to fetch.
        yanked: why the release was withdrawn, possibly an empty text; None if it was not.
        newer: a newer matching release without a source archive; empty if there is none.
        unknown: why an index may have a newer release that was not seen; empty if all indexes answered.
    """

    entry: Entry
    yanked: str | None = None
    newer: str = ""
    unknown: str = ""


class _Offer(NamedTuple):
    """An archive of a release.

    Attributes:
        version: the version of the release.
        link: the link to the archive.
    """

    version: Version
    link: Link

    @property
    def is_source(self) -> bool:
        """Whether it is a source archive."""
        return not self.link.filename.endswith(_WHEEL)


def find(wanted: Wanted, fetcher: Fetcher) -> Candidate:
    """The source archive of the newest matching release, on the indexes and in the mirror directory.

    A withdrawn release matches only if its exact version is named, as with pip (PEP 592).

    Args:
        wanted: the requirement to match.
        fetcher: the fetcher with the indexes.

    Raises:
        DriverError: NOT_FOUND_UPSTREAM if there is none; NO_NETWORK if an index that may have it cannot be reached;
            SET_UP if pip cannot list the indexes.
    """
    failures: list[OriginError] = []
    meter = Meter()
    offers = list(_offers(wanted, fetcher, meter, failures))
    valid = [offer for offer in offers if offer.link.yanked is None or wanted.exact]
    fitting = set(wanted.specifier.filter({offer.version for offer in valid}))
    sources = [offer for offer in valid if offer.version in fitting and offer.is_source]
    if not sources:
        raise _none(wanted, offers, fitting, failures)
    best = max(offer.version for offer in sources)
    ranked = sorted((offer for offer in sources if offer.version == best), key=_preference)
    link = ranked[0].link
    try:
        entry = entry_of(fetcher, wanted.name, str(best), _with_digest(link, fetcher, meter), meter)
    except OriginError as failure:
        raise error(failure.code, f"cannot fetch {link.filename}: {failure.reason}") from failure
    newest = max(fitting)
    newer = f"{wanted.name} {newest}" if newest > best else ""
    return Candidate(entry, link.yanked, newer, "" if wanted.exact else _unreachable(failures))


def _offers(wanted: Wanted, fetcher: Fetcher, meter: Meter, failures: list[OriginError]) -> Iterator[_Offer]:
    """The archives of a project: in the mirror directory, then, unless that has the exact release, on the indexes."""
    found = False
    for offer in _parsed(_mirrored(fetcher), wanted.name):
        found = found or (wanted.exact and offer.is_source and wanted.specifier.contains(offer.version))
        yield offer
    if not found:
        yield from _parsed(fetcher.index.links(wanted.name, meter, failures), wanted.name)


def _mirrored(fetcher: Fetcher) -> Iterator[Link]:
    """The files of the mirror directory."""
    if fetcher.mirror is not None and fetcher.mirror.is_dir():
        for path in sorted(fetcher.mirror.iterdir()):
            if path.is_file():
                yield Link(filename=path.name, url=path.absolute().as_uri())


def _parsed(links: Iterable[Link], name: str) -> Iterator[_Offer]:
    for link in links:
        version = version_in(link.filename, name)
        if version is not None:
            yield _Offer(version, link)


def version_in(filename: str, name: str) -> Version | None:
    """The version in the file name of a project's source archive or wheel; None for another file name.

    Args:
        filename: the file name of the archive.
        name: the normalized name of the project.
    """
    ending = next((ending for ending in (*_SDISTS, _WHEEL) if filename.endswith(ending)), None)
    if ending is None:
        return None
    parts = filename.removesuffix(ending).split("-")
    for count in range(1, len(parts)):
        if normalized("-".join(parts[:count])) == name:
            text = parts[count] if ending == _WHEEL else "-".join(parts[count:])
            try:
                return Version(text.replace("_", "-"))
            except InvalidVersion:
                continue
    return None


def _preference(offer: _Offer) -> int:
    """The sort key of a release's archives: in the order of the indexes, the preferred kind first."""
    return next(number for number, ending in enumerate(_SDISTS) if offer.link.filename.endswith(ending))


def _with_digest(link: Link, fetcher: Fetcher, meter: Meter) -> Link:
    """The link with its SHA-256; if the index states none, the archive is read once for it.

    Raises:
        OriginError: the archive cannot be read.
    """
    if link.sha256 or link.local is not None:
        return link

    def attempt() -> str:
        digest = hashlib.sha256()
        with closing(fetcher.http.open(link.url)) as response:
            for chunk in response.chunks(meter):
                digest.update(chunk)
        return digest.hexdigest()

    return replace(link, sha256=retried(attempt, meter))


def _none(
    wanted: Wanted, offers: Iterable[_Offer], fitting: set[Version], failures: Iterable[OriginError]
) -> DriverError:
    """The error for a missing source archive."""
    offers, failures = list(offers), list(failures)
    if reasons := _unreachable(failures):
        advice = "check the network and pip's configuration"
        return error(Code.NO_NETWORK, f"cannot look up `{wanted.text}` on the package index: {reasons}", help=advice)
    if fitting:
        newest = max(fitting)
        count = sum(offer.version == newest for offer in offers)
        message = f"{wanted.name} {newest} has no source archive on the package index, only {counted(count, 'wheel')}"
        advice = "get the sources from the project's repository, and name the directory"
        return error(Code.NOT_FOUND_UPSTREAM, message, help=advice)
    if not offers:
        reasons = "; ".join(dict.fromkeys(failure.reason for failure in failures)) or "it lists no release"
        message = f"the package index has no project `{wanted.name}`: {reasons}"
        return error(Code.NOT_FOUND_UPSTREAM, message, help="check the name and pip's configuration")
    withdrawn = {offer.version for offer in offers if offer.link.yanked is not None}
    versions = {offer.version for offer in offers} - withdrawn
    near = nearest(_number(wanted), map(str, versions)) if wanted.exact else None
    known = f"the newest release is {wanted.name}=={max(versions)}" if versions else "all releases were withdrawn"
    if near and near != str(max(versions)):
        known = f"did you mean {wanted.name}=={near}? {known}"
    if taken := sorted(wanted.specifier.filter(withdrawn), reverse=True):
        known = f"{wanted.name}=={taken[0]} was withdrawn; it is built if it is named so"
    return error(Code.NOT_FOUND_UPSTREAM, f"the package index has no release of `{wanted.text}`", help=known)


def _unreachable(failures: Iterable[OriginError]) -> str:
    """Why indexes could not be reached; empty if all were reached."""
    return "; ".join(dict.fromkeys(failure.reason for failure in failures if failure.code is Code.NO_NETWORK))


def _number(wanted: Wanted) -> str:
    return next(iter(wanted.specifier)).version
