"""A Unix socket, reached over TCP by one user's processes only: no Bazel of Debian's can open a Unix socket."""

from __future__ import annotations

import os
import socket
import socketserver
import struct
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST: Final = "127.0.0.1"
_CHUNK: Final = 1 << 18
_POLL_SECONDS: Final = 0.05
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""The system's connections, a line each: `sl local remote state queues timer retransmits uid timeout inode ...`."""

_MAPPED: Final = "0000000000000000FFFF0000"
"""What an IPv4 address of an IPv6 socket, such as Java's, begins with."""


@contextmanager
def relay(path: str, port: int = 0) -> Iterator[int]:
    """Listen on the loopback interface as long as this lasts, and pass what comes from this user on to a Unix socket.

    Args:
        path: of the socket; looked for whenever somebody connects.
        port: to listen on; 0 for any.

    Yields:
        The port.

    Raises:
        OSError: the port cannot be used.
    """
    with _Relay(path, port) as server:
        threading.Thread(target=server.serve_forever, args=[_POLL_SECONDS], daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


class _Relay(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    block_on_close = False
    daemon_threads = True
    request_queue_size = 128
    server_address: tuple[str, int]

    def __init__(self, path: str, port: int) -> None:
        self.path = path
        super().__init__((_HOST, port), _Connection)

    def verify_request(self, request: object, client_address: object) -> bool:
        """Whether a connection is of a process of this user: the system knows whose socket its other end is."""
        del request
        if (
            not isinstance(client_address, tuple) or client_address[0] != _HOST
        ):  # a port of another address is another's
            return False
        return owner(client_address[1], self.server_address[1]) == os.geteuid()


class _Connection(socketserver.BaseRequestHandler):
    server: _Relay

    def handle(self) -> None:
        """Pass bytes both ways until both ends have said all."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as there:
            there.connect(self.server.path)
            if _user(there) not in {os.geteuid(), 0}:  # somebody else may have put a socket there
                return
            back = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
            back.start()
            _copy(self.request, there)
            back.join()


def _user(there: socket.socket) -> int:
    """The user whose process listens at the other end of a Unix socket: `struct ucred` of unix(7)."""
    _, user, _ = struct.unpack("3i", there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until there are no more; if the target takes no more, the source is to send no more."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
    except OSError:
        with suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def owner(port: int, server: int) -> int | None:
    """The user whose process has a socket of the loopback interface; None if there is none that is open.

    Args:
        port: of the socket.
        server: the port that it is connected to.
    """
    host = f"{int.from_bytes(socket.inet_aton(_HOST), 'little'):08X}"
    ends = [(f"{kind}{host}:{port:04X}", f"{kind}{host}:{server:04X}") for kind in ("", _MAPPED)]
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines():
                found = line.split()
                # A socket that its process has closed is nobody's: it is shown as root's, without an inode.
                if (found[1], found[2]) in ends and found[9] != "0":
                    return int(found[7])
    return None
