"""A part of a wheel's members, each verified against its RECORD, without the rest of the wheel."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import itertools
import lzma
import stat
import struct
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Code
from py_driver.fetch.ranged_file import RangedFile
from py_driver.fetch.transfer import OriginError
from py_driver.system.cache import storage_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from py_driver.fetch.entry import Entry
    from py_driver.fetch.transfer import Meter

_COMPRESSIONS: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_LEVEL: Final = 6
_SIZE: Final = 2  # the column of RECORD
_RECORD_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a RECORD, which is read before its digest is known; torch's has 1 MB."""

BROKEN_ZIP: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    csv.Error,
    EOFError,
    LookupError,
    ValueError,
    OverflowError,
    RuntimeError,  # encrypted, or with an unknown compression
)
"""The exceptions, besides OSError, that zipfile raises for a damaged archive."""


class _Pin(NamedTuple):
    """RECORD's entry of a member: `sha256=...` in base64, and its size in digits, or an empty text."""

    digest: str
    size: str


def is_broken(wrong: Exception) -> bool:
    """Whether an exception from reading a zip means that its fields are invalid.

    An OSError is raised for an offset outside of any file, and without a number for bytes that are not bzip2.
    """
    return isinstance(wrong, BROKEN_ZIP) or (isinstance(wrong, OSError) and wrong.errno in {None, errno.EINVAL})


def read_record(wheel: IO[bytes] | RangedFile) -> bytes:
    """A wheel's RECORD.

    Raises:
        OriginError: it is not a wheel (BAD_DIGEST).
    """
    with _broken("the wheel"), zipfile.ZipFile(wheel) as archive:
        return _read_record(wheel, archive)


def write_members(wheel: IO[bytes] | RangedFile, entry: Entry, partial: Path, meter: Meter) -> None:
    """Write the required members of a wheel, and its RECORD, as a reproducible zip.

    Args:
        wheel: the complete wheel, or a RangedFile of it.
        entry: the required members, and the digest of RECORD.
        partial: the file to write.
        meter: ends the work when stopped.

    Raises:
        OriginError: it is another wheel, or is damaged (BAD_DIGEST).
        DriverError: no space left (NO_SPACE), not allowed to write (PERMISSION), stopped (INTERRUPTED).
    """
    with _broken(entry.basename), zipfile.ZipFile(wheel) as source:
        record = _record_of(source)
        content = _read_record(wheel, source)
        pins = _pins(content, entry)
        members = {i.filename: i for i in source.infolist() if i.filename in pins}
        if not pins:
            raise OriginError(Code.NOT_FOUND_UPSTREAM, f"{entry.basename} has none of the files required by the lock")
        _check_names(members, pins)
        _prefetch(wheel, source, members.values())
        with storage_errors(partial), zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name in sorted([*members, record.filename]):
                info = zipfile.ZipInfo(name, _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                executable = name in members and members[name].external_attr >> 16 & 0o111
                info.external_attr = (0o755 if executable else 0o644) << 16
                data = _read_member(source, members[name], pins) if name in members else content
                bundle.writestr(info, data, compresslevel=_LEVEL)
                meter.check()


def check_members(path: Path, entry: Entry) -> None:
    """Check that a bundle of `write_members` is intact: all required members, and nothing else.

    Args:
        path: its path.
        entry: the required members, and the digest of RECORD.

    Raises:
        OriginError: it is not intact (BAD_DIGEST).
        OSError: it cannot be read.
    """
    with _broken("it"), zipfile.ZipFile(path) as bundle:
        record = _record_of(bundle)
        pins = _pins(_read_record(None, bundle), entry)
        members = [i for i in bundle.infolist() if i is not record]
        _check_names({i.filename for i in members}, pins)
        for info in members:
            if info.filename not in pins:
                raise OriginError(Code.BAD_DIGEST, f"{info.filename} does not belong there")
            if stat.S_ISLNK(info.external_attr >> 16):
                raise OriginError(Code.BAD_DIGEST, f"{info.filename} is a link")
            _read_member(bundle, info, pins)


@contextmanager
def _broken(name: str) -> Iterator[None]:
    """Turn exceptions from reading a damaged zip into an OriginError."""
    try:
        yield
    except Exception as wrong:
        if not is_broken(wrong):
            raise
        raise OriginError(Code.BAD_DIGEST, f"{name} is damaged: {wrong or type(wrong).__name__}") from wrong


def _pins(record: bytes, entry: Entry) -> dict[str, _Pin]:
    """The entries of required members in RECORD, whose digest must match."""
    actual = hashlib.sha256(record).hexdigest()
    if actual != entry.record_sha256:
        reason = f"the RECORD of {entry.basename} has the SHA-256 {actual}, the lock has {entry.record_sha256}"
        raise OriginError(Code.BAD_DIGEST, reason)
    rows = csv.reader(io.StringIO(record.decode(), newline=""))
    return {row[0]: _Pin(row[1], row[2]) for row in rows if len(row) > _SIZE and row[1] and entry.wants(row[0])}


def _check_names(names: Collection[str], pins: Mapping[str, _Pin]) -> None:
    """Check that all required members exist."""
    if missing := sorted(pins.keys() - set(names)):
        raise OriginError(Code.BAD_DIGEST, f"{missing[0]} is missing, which the wheel's RECORD names")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, pins: Mapping[str, _Pin]) -> bytes:
    """A member that matches RECORD; a member of another size is not unpacked."""
    pin = pins[info.filename]
    actual = f"{info.file_size} bytes"
    if pin.size in {"", str(info.file_size)}:
        data = _content(archive, info)
        actual = f"sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')}"
        if pin.digest == actual:
            return data
    reason = f"{info.filename} does not match the wheel's RECORD: {pin.digest} of {pin.size} bytes, not {actual}"
    raise OriginError(Code.BAD_DIGEST, reason)


def _read_record(wheel: IO[bytes] | RangedFile | None, archive: zipfile.ZipFile) -> bytes:
    """RECORD, without a check of its digest."""
    record = _record_of(archive)
    if record.file_size > _RECORD_BYTES:
        raise zipfile.BadZipFile(f"its RECORD has {record.file_size} bytes")
    _prefetch(wheel, archive, [record])
    return _content(archive, record)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in _COMPRESSIONS:
        raise zipfile.BadZipFile(f"{info.filename} has a compression that wheels do not have")
    return archive.read(info)


def _record_of(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    found = [i for i in archive.infolist() if i.filename.endswith(".dist-info/RECORD") and i.filename.count("/") == 1]
    if len(found) != 1:
        raise zipfile.BadZipFile(f"{len(found)} RECORD files in it")
    return found[0]


def _prefetch(
    wheel: IO[bytes] | RangedFile | None, archive: zipfile.ZipFile, wanted: Collection[zipfile.ZipInfo]
) -> None:
    """Fetch the members' bytes: each extends to the next member, or to the directory."""
    if not isinstance(wheel, RangedFile):
        return
    starts = sorted({i.header_offset for i in archive.infolist()} | {archive.start_dir})
    following = dict(itertools.pairwise(starts))
    wheel.prefetch((i.header_offset, following[i.header_offset]) for i in wanted)
