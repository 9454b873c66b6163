"""What a transfer over the network knows: its failures, its byte counts, when to try again."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

RETRY_DELAYS: Final = (0.5, 2.0, 5.0)
"""Seconds to wait before each further try of a request that broke off, timed out or met a server's own error.

Three tries outlast the restart of a proxy; a download that gained bytes in a try starts counting anew.
"""

UNREACHABLE_TRIES: Final = 2
"""How often a host is tried to which no connection can be made: without a network the answer should come soon."""

MAX_RETRY_AFTER: Final = 20.0
"""Seconds at most that a server's Retry-After is heeded."""

_USERINFO = re.compile(r"(?<=//)[^/\s@]*@")


def redacted(text: str) -> str:
    """The text with user names and passwords taken out of the URLs in it."""
    return _USERINFO.sub("", text)


class OriginError(Exception):
    """One origin could not deliver; another one still may.

    Args:
        code: NO_NETWORK, NOT_FOUND_UPSTREAM or BAD_DIGEST.
        reason: what happened, for a list of reasons; credentials and line breaks are taken out.
        tries: how often the same request may be tried in all.
        retry_after: seconds the server asked to wait for, or 0.
    """

    def __init__(self, code: Code, reason: str, *, tries: int = 1, retry_after: float = 0.0) -> None:
        self.code = code
        self.reason = " ".join(redacted(reason).split())
        self.tries = tries
        self.retry_after = min(retry_after, MAX_RETRY_AFTER)
        super().__init__(self.reason)


class Meter:
    """Counts the bytes that one entry took from the network, and lets it be stopped.

    Args:
        stop: set by whoever wants the transfer to end.
        report: called with each number of bytes received.
    """

    def __init__(self, stop: threading.Event | None = None, report: Callable[[int], None] | None = None) -> None:
        self.stop = threading.Event() if stop is None else stop
        self.bytes = 0
        self._report = report

    def add(self, count: int) -> None:
        """Count bytes received.

        Raises:
            DriverError: the transfer is to stop (INTERRUPTED).
        """
        self.bytes += count
        if self._report is not None:
            self._report(count)
        self.check()

    def check(self) -> None:
        """Go on only if nobody wants the transfer to end.

        Raises:
            DriverError: the transfer is to stop (INTERRUPTED).
        """
        if self.stop.is_set():
            raise error(Code.INTERRUPTED, "interrupted")


def retried(attempt: Callable[[], T], meter: Meter) -> T:
    """Do a request, again after a while when its failure may pass.

    A try that received bytes through `meter` makes the count of tries start anew only if `attempt` can go on from
    there, which it says by raising an OriginError whose `tries` is 0.

    Args:
        attempt: the request; raises OriginError.
        meter: of the transfer; ends the waiting when stopped.

    Raises:
        OriginError: the last try's.
        DriverError: the transfer is to stop (INTERRUPTED).
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
