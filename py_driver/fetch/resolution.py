"""Lock entries for wheels and source archives of Python packages, looked up on the user's indexes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.entry import Entry, Origin, parse_entry
from py_driver.fetch.package_index import normalized
from py_driver.fetch.ranged_file import NoRangesError, RangedFile
from py_driver.fetch.transfer import Meter, OriginError
from py_driver.fetch.wheel_members import read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.fetch.fetcher import Fetcher
    from py_driver.fetch.package_index import Link

WHEEL = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)
"""The file name of a wheel (PEP 427), without its build tag among the named groups."""


def resolve(fetcher: Fetcher, name: str, version: str, *, python_tag: str = "py3", cpu: str = "x86_64") -> Entry:
    """The lock entry of a wheel for Linux.

    Args:
        fetcher: the fetcher, whose indexes are used.
        name: project.
        version: exact version, with its local part if it has one.
        python_tag: e.g. `cp312`; wheels for any Python 3 fit too, if there is none for it.
        cpu: the CPU as in platform tags.

    Raises:
        DriverError: no index has such a wheel (NOT_FOUND_UPSTREAM) or can be reached (NO_NETWORK); pip cannot report
            its indexes (SET_UP); an index has values that are invalid in a lock (BAD_VALUE).
    """
    meter = Meter()
    failures: list[OriginError] = []
    ranked = [
        (rank, link)
        for link in fetcher.index.links(name, meter, failures)
        if (rank := _rank(link, version, python_tag, cpu))
    ]
    if not ranked:
        raise _none(f"no wheel of {name} {version} for {python_tag} on {cpu} Linux was found", failures)
    return entry_of(fetcher, name, version, max(ranked, key=lambda pair: pair[0])[1], meter)


def resolve_sdist(fetcher: Fetcher, name: str, version: str) -> Entry:
    """The lock entry of a source archive.

    Args:
        fetcher: the fetcher, whose indexes are used.
        name: project.
        version: exact version.

    Raises:
        DriverError: as `resolve`.
    """
    meter = Meter()
    failures: list[OriginError] = []
    wanted = f"{normalized(name)}-{version}.tar.gz"
    for link in fetcher.index.links(name, meter, failures):
        stem, _, rest = link.filename.rpartition("-")
        if f"{normalized(stem)}-{rest}" == wanted:
            return entry_of(fetcher, name, version, link, meter)
    raise _none(f"no source archive of {name} {version} was found", failures)


def _none(message: str, failures: Sequence[OriginError]) -> DriverError:
    """The error for an archive that no index has, or that is unknown since an index cannot be reached."""
    unreachable = any(failure.code is Code.NO_NETWORK for failure in failures)
    reasons = "; ".join(failure.reason for failure in failures)
    return error(
        Code.NO_NETWORK if unreachable else Code.NOT_FOUND_UPSTREAM,
        f"{message}{': ' if reasons else ''}{reasons}",
        help="check the version and pip's configuration",
    )


def entry_of(fetcher: Fetcher, name: str, version: str, link: Link, meter: Meter) -> Entry:
    """The entry of a complete archive that an index lists.

    Args:
        fetcher: the fetcher, whose indexes list it.
        name: project.
        version: of the archive.
        link: to the archive.
        meter: counts the bytes of a request for its size.

    Raises:
        DriverError: the index does not state its size or digest (NOT_FOUND_UPSTREAM), or has values that are invalid in
            a lock (BAD_VALUE).
    """
    entry = Entry(
        name=normalized(name),
        version=version,
        filename=link.filename,
        size=_size(fetcher, link, meter),
        sha256=_sha256(link),
        origin=Origin.PYTHON_INDEX,
    )
    return parse_entry(entry.to_json())


def resolve_members(fetcher: Fetcher, entry: Entry, include: Sequence[str], exclude: Sequence[str] = ()) -> Entry:
    """The entry with the digest of the wheel's RECORD, for a part of its members.

    Args:
        fetcher: the fetcher, whose indexes are used.
        entry: of the whole wheel.
        include: prefixes of the members wanted.
        exclude: regular expressions of members not wanted.

    Raises:
        DriverError: the wheel cannot be read in part (NOT_FOUND_UPSTREAM) or is damaged (BAD_DIGEST).
    """
    meter = Meter()
    failures: list[OriginError] = []
    for link in fetcher.index.links(entry.name, meter, failures):
        if link.filename != entry.filename:
            continue
        try:
            if (local := link.local) is not None:
                with local.open("rb") as wheel:
                    record = read_record(wheel)
            else:
                record = read_record(RangedFile(link.url, entry.size, fetcher.http, meter))
        except OriginError as failure:
            failures.append(failure)
        except NoRangesError:
            failures.append(OriginError(Code.NOT_FOUND_UPSTREAM, f"{link.origin} cannot send a part of a file"))
        else:
            digest = hashlib.sha256(record).hexdigest()
            return replace(entry, record_sha256=digest, include=tuple(include), exclude=tuple(exclude))
    reasons = "; ".join(failure.reason for failure in failures) or "no index lists it"
    raise error(
        failures[-1].code if failures else Code.NOT_FOUND_UPSTREAM,
        f"cannot read the RECORD of {entry.filename}: {reasons}",
    )


def _rank(link: Link, version: str, python_tag: str, cpu: str) -> tuple[()] | tuple[bool, str]:
    """The suitability of a link's wheel: higher is better, an empty tuple is unsuitable."""
    found = WHEEL.fullmatch(link.filename)
    if found is None or found["version"] != version:
        return ()
    pythons = set(found["python"].split("."))
    exact = python_tag in pythons
    stable = "abi3" in found["abi"].split(".") and any(p.startswith("cp3") for p in pythons)
    if not exact and not stable and "py3" not in pythons:
        return ()
    if not set(found["abi"].split(".")) & {"none", "abi3", python_tag}:
        return ()
    platforms = found["platform"].split(".")
    if not any(p == "any" or re.fullmatch(rf"(many)?linux.*_{cpu}", p) for p in platforms):
        return ()
    return (exact, found["platform"])


def _size(fetcher: Fetcher, link: Link, meter: Meter) -> int:
    try:
        local = link.local
        size = link.size or (local.stat().st_size if local else fetcher.http.size(link.url, meter))
    except (OriginError, OSError) as wrong:
        code = wrong.code if isinstance(wrong, OriginError) else Code.NOT_FOUND_UPSTREAM
        raise error(code, f"cannot ask for the size of {link.filename}: {wrong}") from wrong
    if not size:
        raise error(Code.NOT_FOUND_UPSTREAM, f"{link.origin} does not say how large {link.filename} is")
    return size


def _sha256(link: Link) -> str:
    if link.sha256:
        return link.sha256
    local = link.local
    if local is None:
        raise error(Code.NOT_FOUND_UPSTREAM, f"{link.origin} does not state the SHA-256 of {link.filename}")
    with local.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
