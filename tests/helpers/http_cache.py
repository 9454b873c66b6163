"""A remote cache over HTTP (docs: Bazel, remote caching), which can misbehave on request."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_LONG = 30  # seconds; longer than a client waits


class Fault(StrEnum):
    """A fault of the cache.

    Attributes:
        NONE: nothing.
        DENIED: it demands credentials.
        BROKEN: it answers with status 500.
        STALLED: it sends half of a blob, and then nothing for a long time.
        TRUNCATED: it leaves out the last byte of a blob.
        SWAPPED: it sends different bytes of the same length.
        LOST: it has action results, but not their blobs.
        CUT: it ends the connection in the middle of a blob.
    """

    NONE = "none"
    DENIED = "denied"
    BROKEN = "broken"
    STALLED = "stalled"
    TRUNCATED = "truncated"
    SWAPPED = "swapped"
    LOST = "lost"
    CUT = "cut"


class Cache(ThreadingHTTPServer):
    """The server.

    Attributes:
        blobs: path, `/ac/KEY` or `/cas/SHA-256`, to content.
        fault: its current fault.
        counts: the number of requests by kind: `GET /cas`, `PUT /ac`, ...
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[str, bytes] = {}
        self.fault = Fault.NONE
        self.counts: Counter[str] = Counter()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Cache

    def _refused(self) -> bool:
        self.server.counts[f"{self.command} /{self.path.split('/')[1]}"] += 1
        code = {Fault.DENIED: 401, Fault.BROKEN: 500}.get(self.server.fault)
        if code:
            self._answer(code)
        return code is not None

    def _answer(self, code: int, content: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._refused():
            self.server.blobs[self.path] = content
            self._answer(200)

    def do_GET(self) -> None:
        if self._refused():
            return
        fault = self.server.fault if self.path.startswith("/cas/") else Fault.NONE
        content = self.server.blobs.get(self.path)
        if content is None or fault is Fault.LOST:
            self._answer(404)
        elif fault is Fault.TRUNCATED:
            self._answer(200, content[:-1])
        elif fault is Fault.SWAPPED:
            self._answer(200, bytes(byte ^ 1 for byte in content))
        elif fault in {Fault.CUT, Fault.STALLED}:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            time.sleep(_LONG if fault is Fault.STALLED else 0)
            self.close_connection = True
        else:
            self._answer(200, content)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving() -> Iterator[Cache]:
    """A cache on the loopback interface, until the end of the context."""
    with Cache() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
