"""Some members of a wheel, verified one by one against its RECORD, without the rest of it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import itertools
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Final

from py_driver.errors import Code
from py_driver.fetch.ranged_file import RangedFile
from py_driver.fetch.store import storage_errors
from py_driver.fetch.transfer import OriginError

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.fetch.entry import Entry
    from py_driver.fetch.transfer import Meter

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_LEVEL: Final = 6
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError, UnicodeError)


def read_record(wheel: IO[bytes] | RangedFile) -> bytes:
    """A wheel's RECORD.

    Raises:
        OriginError: it is no wheel (BAD_DIGEST).
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            _prefetch(wheel, archive, [_record_of(archive)])
            return archive.read(_record_of(archive))
    except _BROKEN as wrong:
        raise OriginError(Code.BAD_DIGEST, f"it is not a whole wheel: {wrong}") from wrong


def write_slim(wheel: IO[bytes] | RangedFile, entry: Entry, partial: Path, meter: Meter) -> None:
    """Write the wanted members of a wheel, and its RECORD, as a zip that depends on nothing else.

    Args:
        wheel: the whole wheel, or a RangedFile of it.
        entry: what is wanted, and the digest of RECORD.
        partial: file to write.
        meter: ends this when stopped.

    Raises:
        OriginError: it is not the wheel wanted, or is damaged (BAD_DIGEST).
        DriverError: no space left (NO_SPACE), not allowed to write (PERMISSION), stopped (INTERRUPTED).
    """
    try:
        with zipfile.ZipFile(wheel) as source:
            record = _record_of(source)
            _prefetch(wheel, source, [record])
            digests = checked_record(source.read(record), entry)
            wanted = [i for i in source.infolist() if not i.is_dir() and entry.wants(i.filename)]
            if not wanted:
                raise OriginError(Code.NOT_FOUND_UPSTREAM, f"{entry.basename} has nothing of what is wanted of it")
            _prefetch(wheel, source, wanted)
            with storage_errors(partial), zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as bundle:
                members = {i.filename: i for i in [*wanted, record]}
                for name in sorted(members):
                    data = source.read(members[name])
                    if name != record.filename:
                        check_member(name, data, digests)
                    info = zipfile.ZipInfo(name, _EPOCH)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    info.external_attr = (0o755 if members[name].external_attr >> 16 & 0o111 else 0o644) << 16
                    bundle.writestr(info, data, compresslevel=_LEVEL)
                    meter.check()
    except _BROKEN as wrong:
        raise OriginError(Code.BAD_DIGEST, f"{entry.basename} is damaged: {wrong}") from wrong


def checked_record(record: bytes, entry: Entry) -> dict[str, str]:
    """The digests of a wheel's members, from its RECORD.

    Args:
        record: the file's bytes.
        entry: with the digest that the file must have.

    Raises:
        OriginError: it is another RECORD (BAD_DIGEST).
    """
    actual = hashlib.sha256(record).hexdigest()
    if actual != entry.record_sha256:
        reason = f"the RECORD of {entry.basename} has the SHA-256 {actual}, the lock says {entry.record_sha256}"
        raise OriginError(Code.BAD_DIGEST, reason)
    rows = csv.reader(io.StringIO(record.decode(), newline=""))
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[1]}


def check_member(name: str, data: bytes, digests: dict[str, str]) -> None:
    """Compare a member of a wheel with what RECORD says of it.

    Raises:
        OriginError: it differs, or RECORD does not have it (BAD_DIGEST).
    """
    actual = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    if digests.get(name) != f"sha256={actual}":
        raise OriginError(Code.BAD_DIGEST, f"{name} is not what the wheel's RECORD says")


def _record_of(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    found = [i for i in archive.infolist() if i.filename.endswith(".dist-info/RECORD") and i.filename.count("/") == 1]
    if len(found) != 1:
        raise zipfile.BadZipFile(f"{len(found)} RECORD files in it")
    return found[0]


def _prefetch(wheel: IO[bytes] | RangedFile, archive: zipfile.ZipFile, wanted: list[zipfile.ZipInfo]) -> None:
    """Fetch the members' bytes: each ends where the next one, or the directory, begins."""
    if not isinstance(wheel, RangedFile):
        return
    starts = sorted({i.header_offset for i in archive.infolist()} | {archive.start_dir})
    following = dict(itertools.pairwise(starts))
    wheel.prefetch((i.header_offset, following[i.header_offset]) for i in wanted)
