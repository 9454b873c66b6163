"""A package index on the loopback interface with scripted faults, and archives for it."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import socket
import struct
import threading
import time
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py_driver.fetch.entry import Entry, Origin

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

SLOW_CHUNK = 64 * 1024


@dataclass
class Page:
    """The content of the server at a path, and its faults for the first requests, e.g. `503`, `reset`, `cut:1000`.

    If `raw` is set, the server sends only that.
    """

    body: bytes
    content_type: str = "application/octet-stream"
    script: list[str] = field(default_factory=list)
    ranges: bool = True
    raw: bytes = b""


@dataclass(frozen=True)
class Asked:
    path: str
    span: str
    authorization: str


class Server:
    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[Asked] = []
        self.connections = 0
        self.sent = 0
        self._counting = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                super().setup()
                owner.connections += 1

            def do_GET(self) -> None:
                owner.asked.append(
                    Asked(self.path, self.headers.get("Range", ""), self.headers.get("Authorization", ""))
                )
                owner.answer(self)

            def log_message(self, *_: Any) -> None:  # noqa: ANN401  (the base class's signature)
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.host = f"127.0.0.1:{self._http.server_port}"
        self.url = f"{'https' if context else 'http'}://{self.host}"
        if context:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def spans(self, path: str) -> list[str]:
        return [asked.span for asked in self.asked if asked.path == path]

    def offer(
        self,
        project: str,
        files: Mapping[str, bytes],
        *,
        as_json: bool = False,
        digest: bool = True,
        yanked: Mapping[str, str] | None = None,
    ) -> None:
        """Put files on the index, with a project page as in PEP 691 or 503; `yanked` maps files to reasons."""
        withdrawn = yanked or {}
        for name, body in files.items():
            self.pages[f"/files/{name}"] = Page(body)
        digests = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
        if as_json:
            listing = [
                {
                    "filename": n,
                    "url": f"../../files/{n}",
                    "size": len(files[n]),
                    "hashes": {"sha256": d},
                    "yanked": withdrawn.get(n, False) or n in withdrawn,
                }
                for n, d in digests.items()
            ]
            body, kind = json.dumps({"files": listing}).encode(), "application/vnd.pypi.simple.v1+json"
        else:
            targets = {
                f"../../files/{n.replace('+', '%2B')}" + f"#sha256={d}" * digest: (
                    f' data-yanked="{html.escape(withdrawn[n])}"' if n in withdrawn else ""
                )
                for n, d in digests.items()
            }
            anchors = "".join(f'<a href="{html.escape(t)}" data-x="&gt;=3"{y}>x</a>\n' for t, y in targets.items())
            body, kind = f"<!DOCTYPE html><html><body>{anchors}</body></html>".encode(), "text/html"
        self.pages[f"/simple/{project}/"] = Page(body, kind)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        page = self.pages.get(unquote(handler.path))
        if page is None:
            handler.send_error(404)
            return
        if page.raw:
            self._send(handler, page.raw, "raw", "")
            return
        action, _, argument = (page.script.pop(0) if page.script else "").partition(":")
        if action.isdigit():
            handler.send_response(int(action))
            if argument:
                handler.send_header("Location", argument)
            handler.end_headers()
            return
        if action == "reset":
            _reset(handler.connection)
            return
        body = bytes(len(page.body)) if action == "wrong" else page.body
        start, end = 0, len(body)
        span = handler.headers.get("Range", "").removeprefix("bytes=")
        if span and page.ranges:
            first, _, last = span.partition("-")
            start, end = int(first), int(last) + 1 if last else end
            if start >= len(body):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Type", page.content_type)
        handler.send_header("Content-Length", str(end - start))
        handler.end_headers()
        self._send(handler, body[start:end], action, argument)

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes, action: str, argument: str) -> None:
        try:
            if action in {"cut", "break"}:
                body = body[: int(argument)]
            step = SLOW_CHUNK if action == "slow" else max(1, min(len(body), 1 << 20))
            for at in range(0, len(body), step):
                # Counted first: a client that has read them all may send a request at once.
                with self._counting:
                    self.sent += len(body[at : at + step])
                handler.wfile.write(body[at : at + step])
                time.sleep(float(argument) if action == "slow" else 0)
        except OSError:
            return
        if action == "break":
            time.sleep(0.1)
            _reset(handler.connection)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def noise(size: int, seed: str = "noise") -> bytes:
    """Incompressible bytes, the same in each call."""
    return hashlib.shake_256(seed.encode()).digest(size)


def wheel(members: Mapping[str, bytes], executable: tuple[str, ...] = ()) -> bytes:
    """A wheel with a RECORD."""
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for name, data in members.items()
    ]
    record = "demo-1.0.dist-info/RECORD"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*members.items(), (record, "".join([*rows, f"{record},,\n"]).encode())]:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(info, data)
    return stream.getvalue()


def pinned(body: bytes, filename: str = "demo-1.0-py3-none-any.whl", **more: Any) -> Entry:  # noqa: ANN401
    """The lock entry of an archive."""
    values = {
        "name": "demo",
        "version": "1.0",
        "filename": filename,
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "origin": Origin.PYTHON_INDEX,
    }
    return Entry(**{**values, **more})
