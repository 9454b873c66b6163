"""Failures, byte counts and retries of network transfers."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

RETRY_DELAYS: Final = (0.5, 2.0, 5.0)
"""Seconds to wait before each retry of a request that was interrupted, timed out or got a server error. Three tries
outlast the restart of a proxy; a try that received bytes resets the count.
"""

UNREACHABLE_TRIES: Final = 2
"""The number of tries without a connection to the host: without a network, the error should come soon."""

MAX_RETRY_AFTER: Final = 20.0
"""The maximum of a server's Retry-After that is respected, in seconds."""

_USERINFO = re.compile(r"(?<=//)[^/\s@]*@")


def redacted(text: str) -> str:
    """The text without user names and passwords in URLs."""
    return _USERINFO.sub("", text)


class OriginError(Exception):
    """An origin could not deliver; another one still may.

    Args:
        code: NO_NETWORK, NOT_FOUND_UPSTREAM or BAD_DIGEST.
        reason: the reason; credentials and line breaks are removed.
        tries: the total number of tries of the same request.
        retry_after: the server's requested wait in seconds, or 0.
    """

    def __init__(self, code: Code, reason: str, *, tries: int = 1, retry_after: float = 0.0) -> None:
        self.code = code
        self.reason = " ".join(redacted(reason).split())
        self.tries = tries
        self.retry_after = min(retry_after, MAX_RETRY_AFTER)
        super().__init__(self.reason)


class Meter:
    """Counts the bytes that an entry received from the network, and allows stopping it.

    Args:
        stop: set to end the transfer.
        report: gets each number of received bytes.
    """

    def __init__(self, stop: threading.Event | None = None, report: Callable[[int], None] | None = None) -> None:
        self.stop = threading.Event() if stop is None else stop
        self.bytes = 0
        self._report = report

    def add(self, count: int) -> None:
        """Count bytes received.

        Raises:
            DriverError: the transfer was stopped (INTERRUPTED).
        """
        self.bytes += count
        if self._report is not None:
            self._report(count)
        self.check()

    def check(self) -> None:
        """Raise if the transfer was stopped.

        Raises:
            DriverError: the transfer was stopped (INTERRUPTED).
        """
        if self.stop.is_set():
            raise error(Code.INTERRUPTED, "interrupted")


def retried(attempt: Callable[[], T], meter: Meter) -> T:
    """Send a request, with retries after temporary failures.

    A try that received bytes through `meter` resets the count of tries only if `attempt` can resume, which it indicates
    by an OriginError with `tries` 0.

    Args:
        attempt: the request; raises OriginError.
        meter: the meter of the transfer, which ends the waiting when stopped.

    Raises:
        OriginError: the error of the last try.
        DriverError: the transfer was stopped (INTERRUPTED).
    """
    tried = 0
    while True:
        meter.check()
        try:
            return attempt()
        except OriginError as failure:
            tried = 1 if failure.tries == 0 else tried + 1
            if 0 < failure.tries <= tried:
                raise
            delay = failure.retry_after or RETRY_DELAYS[min(tried, len(RETRY_DELAYS)) - 1]
        meter.stop.wait(delay)
