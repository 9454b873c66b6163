"""Downloads: a partial file in the store that grows until it is complete and has the locked digest."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import IO, TYPE_CHECKING

from py_driver.errors import Code
from py_driver.fetch.http_client import CHUNK_BYTES, RangeNotSatisfiable
from py_driver.fetch.transfer import OriginError, redacted, retried
from py_driver.system.cache import storage_errors

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.fetch.entry import Entry
    from py_driver.fetch.http_client import Http, Response
    from py_driver.fetch.transfer import Meter


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, entry: Entry, partial: Path, http: Http, meter: Meter) -> None:
    """Fetch an archive into a partial file, resuming an earlier download.

    Bytes with a wrong digest are discarded, and the archive is fetched once more.

    Args:
        url: its address.
        entry: the entry with its size and digest.
        partial: the file to write, which may contain the first bytes, and keeps the received bytes after a failure.
        http: sends the requests.
        meter: counts the bytes.

    Raises:
        OriginError: the origin could not deliver, or delivered other bytes (BAD_DIGEST).
        DriverError: no space left (NO_SPACE), not allowed to write (PERMISSION), stopped (INTERRUPTED).
    """
    actual = ""
    for _ in range(2):
        retried(lambda: _continue(url, entry.size, partial, http, meter), meter)
        with storage_errors(partial):
            actual = sha256_of(partial)
            if actual == entry.sha256:
                return
            partial.unlink()
    raise OriginError(Code.BAD_DIGEST, f"{redacted(url)} has the SHA-256 {actual}, the lock has {entry.sha256}")


def copy(source: Path, entry: Entry, partial: Path, meter: Meter) -> None:
    """Copy an archive on this machine into a partial file.

    Raises:
        OriginError: it cannot be read, or is another archive (BAD_DIGEST).
        DriverError: no space left (NO_SPACE), not allowed to write (PERMISSION), stopped (INTERRUPTED).
    """
    digest = hashlib.sha256()
    try:
        reader = source.open("rb")
    except OSError as wrong:
        raise OriginError(Code.NOT_FOUND_UPSTREAM, f"{source}: {wrong.strerror}") from wrong
    with reader, storage_errors(partial), partial.open("wb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
            meter.check()
    if digest.hexdigest() != entry.sha256:
        partial.unlink()
        raise OriginError(
            Code.BAD_DIGEST, f"{source} has the SHA-256 {digest.hexdigest()}, the lock has {entry.sha256}"
        )


def _continue(url: str, size: int, partial: Path, http: Http, meter: Meter) -> None:
    """Append the missing bytes up to `size`, or up to the server's size if that is 0, in one request."""
    with storage_errors(partial), partial.open("ab", buffering=0) as file:
        held = file.tell()
        if size and held > size:
            file.truncate(held := 0)
        if size and held == size:
            return
        try:
            response = http.open(url, (held, None))
        except RangeNotSatisfiable:
            if not size:  # it is complete, or too long, which the digest will show
                return
            response = http.open(url)
        with closing(response):
            size = size or response.total or 0
            if not size:
                raise OriginError(Code.NO_NETWORK, f"{redacted(url)}: neither the lock nor the server states its size")
            if response.total not in {None, size}:
                reason = f"{redacted(url)} has {response.total} bytes, the lock has {size}"
                raise OriginError(Code.BAD_DIGEST, reason)
            if response.start != held:
                file.truncate(held := response.start if response.start < held else 0)
            _append(response, file, size - held, meter)


def _append(response: Response, file: IO[bytes], missing: int, meter: Meter) -> None:
    """Append an answer's body, which must have `missing` bytes."""
    before = missing
    try:
        for chunk in response.chunks(meter):
            file.write(chunk[:missing])
            missing -= len(chunk)
            if missing < 0:
                break
    except OriginError as failure:
        if response.partial and missing < before:  # the received bytes are kept, so the try was not wasted
            failure.tries = 0
        raise
    if missing > 0:
        raise OriginError(Code.NO_NETWORK, f"{redacted(response.url)} is {missing} bytes too short", tries=2)
