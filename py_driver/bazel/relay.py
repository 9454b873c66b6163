"""Relays TCP connections of one user's processes to a Unix socket, which Debian's Bazel cannot open."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_HOST: Final = "127.0.0.1"
_CHUNK: Final = 1 << 18
_POLL_SECONDS: Final = 0.05
_BACKLOG: Final = 4096
"""The number of waiting connections; the system may have a lower limit."""

_TOGETHER: Final = 512
"""The number of connections that are checked together; each is an open file of this process meanwhile."""

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""The system's connections, one per line: `sl local remote state queues timer retransmits uid timeout inode
...`."""

_MAPPED: Final = "0000000000000000FFFF0000"
"""The prefix of an IPv4 address of an IPv6 socket, such as Java's."""


@contextmanager
def relay(path: str, port: int = 0) -> Iterator[int]:
    """Listen on the loopback interface within this context, and relay this user's connections to a Unix socket.

    Args:
        path: the path of the socket, opened for each connection.
        port: the port to listen on; 0 for any.

    Yields:
        The port.

    Raises:
        OSError: the port cannot be used.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_HOST, port))
        listening.listen(_BACKLOG)
        listening.settimeout(0)
        ends = threading.Event()
        accepting = threading.Thread(target=_accept, args=(listening, path, ends), daemon=True)
        accepting.start()
        try:
            yield listening.getsockname()[1]
        finally:
            ends.set()
            accepting.join()


def _accept(listening: socket.socket, path: str, ends: threading.Event) -> None:
    """Relay the connections of this user's processes, and close all others, until the end is requested.

    The system's table of connections may be long, so it is read once for all waiting connections.
    """
    server = listening.getsockname()[1]
    while not ends.is_set():
        ready, _, _ = select.select([listening], [], [], _POLL_SECONDS)
        if not ready:
            continue
        waiting = _waiting(listening)
        # Another user may have the same port at another address.
        known = owners([port for _, (host, port) in waiting if host == _HOST], server)
        for connection, (host, port) in waiting:
            if host == _HOST and known.get(port) == os.geteuid():
                connection.settimeout(None)
                threading.Thread(target=_serve, args=(connection, path), daemon=True).start()
            else:
                _close(connection)


def _waiting(listening: socket.socket) -> list[tuple[socket.socket, tuple[str, int]]]:
    """The waiting connections with their addresses, at most as many as are checked together."""
    found: list[tuple[socket.socket, tuple[str, int]]] = []
    while len(found) < _TOGETHER:
        try:
            found.append(listening.accept())
        except ConnectionError:  # the peer has closed it meanwhile
            continue
        except BlockingIOError:
            break
        except OSError:  # this process has too many open files; some of these are closed soon
            if not found:
                time.sleep(_POLL_SECONDS)
            break
    return found


def _serve(connection: socket.socket, path: str) -> None:
    """Pass bytes in both directions until both ends have closed."""
    try:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as there:
            there.connect(path)
            if _user(there) not in {os.geteuid(), 0}:  # another user may have put a socket there
                return
            back = threading.Thread(target=_copy, args=(there, connection), daemon=True)
            back.start()
            _copy(connection, there)
            back.join()
    finally:
        _close(connection)


def _close(connection: socket.socket) -> None:
    """Close a connection with a shutdown first, so that the other end reads an end and no error."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()


def _user(there: socket.socket) -> int:
    """The user whose process listens at the other end of a Unix socket: `struct ucred` of unix(7)."""
    _, user, _ = struct.unpack("3i", there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until the end; if the target stops reading, the source is told to stop sending."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
    except OSError:
        with suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def owners(ports: Collection[int], server: int) -> dict[int, int]:
    """The users of sockets on the loopback interface, by port, without ports that are not open.

    Args:
        ports: the ports of the sockets.
        server: the port that they are connected to.
    """
    host = f"{int.from_bytes(socket.inet_aton(_HOST), 'little'):08X}"
    local = {f"{kind}{host}:{port:04X}": port for port in ports for kind in ("", _MAPPED)}
    remote = f"{host}:{server:04X}"
    found: dict[int, int] = {}
    for table in _TABLES if ports else ():
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines():
                if remote not in line:
                    continue
                words = line.split()
                # A socket that its process has closed has no owner: it is shown as root's, without an inode.
                if words[1] in local and words[2] in {remote, _MAPPED + remote} and words[9] != "0":
                    found[local[words[1]]] = int(words[7])
    return found
