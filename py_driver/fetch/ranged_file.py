"""A remote archive as a seekable file object: few requests, each byte at most once."""

from __future__ import annotations

import io
from contextlib import closing
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code
from py_driver.fetch.http_client import RangeNotSatisfiable
from py_driver.fetch.transfer import OriginError, redacted, retried

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.fetch.http_client import Http
    from py_driver.fetch.transfer import Meter

TAIL_BYTES: Final = 64 * 1024
"""The number of bytes at the end that are fetched first: about a zip's end record with the longest possible comment."""

GAP_BYTES: Final = 1024 * 1024
"""The gap between two ranges up to which a single request is cheaper."""

RUN_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of a request, which is read into memory."""


class NoRangesError(Exception):
    """The server cannot send parts of this file."""


class RangedFile(io.RawIOBase):
    """A file on a server, read by HTTP ranges.

    Args:
        url: its address.
        size: its size in bytes.
        http: sends the requests.
        meter: counts the bytes.

    Raises:
        NoRangesError: the server does not do ranges.
        OriginError: the origin could not deliver, or has a file of another size (BAD_DIGEST).
    """

    def __init__(self, url: str, size: int, http: Http, meter: Meter) -> None:
        self._url = url
        self._size = size
        self._http = http
        self._meter = meter
        self._position = 0
        self._parts: list[tuple[int, bytes]] = []
        self.prefetch([(max(0, size - TAIL_BYTES), size)])

    def prefetch(self, spans: Iterable[tuple[int, int]]) -> None:
        """Fetch ranges that will be read soon and are missing, nearby ones together.

        Args:
            spans: pairs of the first byte and one past the last.

        Raises:
            NoRangesError: the server does not do ranges.
            OriginError: the origin could not deliver.
        """
        missing = [s for s in spans if not any(at <= s[0] and s[1] <= at + len(data) for at, data in self._parts)]
        for start, end in _runs(missing):
            self._parts.append((start, self._fetch(start, end)))

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position of the next byte to read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position, which is returned; no request is made."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("seek before the start of the file")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # typeshed: any writable buffer
        """Fill the buffer from fetched bytes, and fetch only the missing ones."""
        done = 0
        while done < len(buffer) and self._position < self._size:
            start, end = self._position, min(self._position + len(buffer) - done, self._size)
            data = next((d[start - at : end - at] for at, d in self._parts if at <= start < at + len(d)), None)
            if data is None:
                data = self._fetch(start, min([end, *(at for at, _ in self._parts if start < at)]))
            buffer[done : done + len(data)] = data
            self._position += len(data)
            done += len(data)
        return done

    def _fetch(self, start: int, end: int) -> bytes:
        def attempt() -> bytes:
            try:
                response = self._http.open(self._url, (start, end))
            except RangeNotSatisfiable as answer:
                reason = f"{redacted(self._url)} is shorter than in the lock"
                raise OriginError(Code.BAD_DIGEST, reason) from answer
            with closing(response):
                if not response.partial:
                    raise NoRangesError
                if response.total not in {None, self._size}:
                    reason = f"{redacted(self._url)} has {response.total} bytes, the lock has {self._size}"
                    raise OriginError(Code.BAD_DIGEST, reason)
                data = response.body(self._meter, end - start)
            if response.start != start or len(data) != end - start:
                raise OriginError(Code.NO_NETWORK, f"{redacted(self._url)}: the server sent another range")
            return data

        return retried(attempt, self._meter)


def _runs(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges, joined if the gap between them is small."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if runs and start - runs[-1][1] <= GAP_BYTES and end - runs[-1][0] <= RUN_BYTES:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        else:
            runs.append((start, end))
    return runs
