"""A Unix socket, reached over TCP by one user's processes only: no Bazel of Debian's can open a Unix socket."""

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
"""Of connections that wait; the system takes no more than its own limit."""

_TOGETHER: Final = 512
"""So many connections are looked at together; each is an open file of this process meanwhile."""

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
    """Pass on the connections of this user's processes, and close all others, until this is to end.

    The system's table of connections is long when there are many, so it is read once for all that wait.
    """
    server = listening.getsockname()[1]
    while not ends.is_set():
        ready, _, _ = select.select([listening], [], [], _POLL_SECONDS)
        if not ready:
            continue
        waiting = _waiting(listening)
        # Somebody else may have the same port at another address.
        known = owners([port for _, (host, port) in waiting if host == _HOST], server)
        for connection, (host, port) in waiting:
            if host == _HOST and known.get(port) == os.geteuid():
                connection.settimeout(None)
                threading.Thread(target=_serve, args=(connection, path), daemon=True).start()
            else:
                _close(connection)


def _waiting(listening: socket.socket) -> list[tuple[socket.socket, tuple[str, int]]]:
    """The connections that wait to be accepted, with the address of each; no more than are looked at together."""
    found: list[tuple[socket.socket, tuple[str, int]]] = []
    while len(found) < _TOGETHER:
        try:
            found.append(listening.accept())
        except ConnectionError:  # it has gone meanwhile
            continue
        except BlockingIOError:
            break
        except OSError:  # this process has too many open files; some of these are closed soon
            if not found:
                time.sleep(_POLL_SECONDS)
            break
    return found


def _serve(connection: socket.socket, path: str) -> None:
    """Pass bytes both ways until both ends have said all."""
    try:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as there:
            there.connect(path)
            if _user(there) not in {os.geteuid(), 0}:  # somebody else may have put a socket there
                return
            back = threading.Thread(target=_copy, args=(there, connection), daemon=True)
            back.start()
            _copy(connection, there)
            back.join()
    finally:
        _close(connection)


def _close(connection: socket.socket) -> None:
    """End a connection: first with a word, so that the other end reads an end and no error."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()


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


def owners(ports: Collection[int], server: int) -> dict[int, int]:
    """The users whose processes have sockets of the loopback interface, by port; none for one that is not open.

    Args:
        ports: of the sockets.
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
                # A socket that its process has closed is nobody's: it is shown as root's, without an inode.
                if words[1] in local and words[2] in {remote, _MAPPED + remote} and words[9] != "0":
                    found[local[words[1]]] = int(words[7])
    return found
