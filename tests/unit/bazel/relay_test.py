"""A Unix socket over TCP: all bytes pass, and nobody else's process is let in."""

from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from py_driver.bazel.relay import owners, relay

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_SECONDS = 30
_NOBODY = 65534
_CLIENT = """
import encodings.idna, os, socket, sys
os.setuid(int(sys.argv[1]))
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[2])), timeout=30) as there:
        there.sendall(b"hello")
        there.shutdown(socket.SHUT_WR)
        print(there.makefile("rb").read())
except OSError:
    print(b"")
"""

_CROWD = """
import os, resource, selectors, socket, sys
os.setuid(int(sys.argv[1]))
many = int(sys.argv[3])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, many + 100), hard))
there = selectors.DefaultSelector()

def come():
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", int(sys.argv[2])))
    there.register(connection, selectors.EVENT_READ)

for _ in range(many):
    come()
print("there", flush=True)
while True:  # whoever is turned away comes again
    for key, _ in there.select():
        there.unregister(key.fileobj)
        key.fileobj.close()
        come()
"""
_CROWD_SIZE = 2000


class _Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Send all that comes back, once there is no more of it."""
        self.wfile.write(self.rfile.read())


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "socket"), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield str(tmp_path / "socket")
        server.shutdown()


def _say(family: socket.AddressFamily, host: str, port: int, content: bytes) -> bytes:
    with socket.socket(family) as there:
        there.settimeout(_SECONDS)
        there.connect((host, port))
        there.sendall(content)
        there.shutdown(socket.SHUT_WR)
        return there.makefile("rb").read()


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")], ids=["v4", "java"]
)
def test_all_bytes_pass(echo: str, family: socket.AddressFamily, host: str) -> None:
    content = os.urandom(1 << 20) * 8
    with relay(echo) as port:
        assert _say(family, host, port, content) == content
        assert _say(family, host, port, b"again") == b"again"


def test_many_at_once(echo: str) -> None:
    said: dict[int, bytes] = {}

    def say(number: int) -> None:
        said[number] = _say(socket.AF_INET, "127.0.0.1", port, b"%d" % number * 1000)

    with relay(echo) as port:
        threads = [threading.Thread(target=say, args=[number]) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_SECONDS)
    assert said == {number: b"%d" % number * 1000 for number in range(20)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_nobody_else_is_let_in(echo: str) -> None:
    with relay(echo) as port:
        for user, answer in ((os.geteuid(), b"hello"), (_NOBODY, b"")):
            client = [sys.executable, "-c", _CLIENT, str(user), str(port)]
            done = subprocess.run(client, capture_output=True, text=True, check=True, timeout=_SECONDS)
            assert done.stdout == f"{answer!r}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.thorough
def test_a_crowd_of_somebody_else_keeps_nobody_waiting(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's table, which is long then, is read once for many of them."""
    together: list[int] = []

    def counted(ports: Collection[int], server: int) -> dict[int, int]:
        together.append(len(ports))
        return owners(ports, server)

    monkeypatch.setattr("py_driver.bazel.relay.owners", counted)
    with relay(echo) as port:
        crowd = [sys.executable, "-c", _CROWD, str(_NOBODY), str(port), str(_CROWD_SIZE)]
        with subprocess.Popen(crowd, stdout=subprocess.PIPE) as others:
            try:
                assert others.stdout
                assert others.stdout.readline() == b"there\n"
                for number in range(20):
                    assert _say(socket.AF_INET, "127.0.0.1", port, b"%d" % number) == b"%d" % number
            finally:
                others.kill()
    assert sum(together) > _CROWD_SIZE
    assert sum(together) > 20 * len(together)


def test_another_address_of_the_loopback_interface_is_not_let_in(echo: str) -> None:
    with relay(echo) as port, socket.create_connection(("127.0.0.1", port)) as known, socket.socket() as there:
        # Somebody else may have the same port at another address.
        there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        there.bind(("127.0.0.2", known.getsockname()[1]))
        there.settimeout(_SECONDS)
        there.connect(("127.0.0.1", port))
        with suppress(ConnectionError):
            there.sendall(b"hello")
            assert there.recv(1) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_socket_of_somebody_else_gets_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "theirs")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        child = os.fork()
        if child == 0:
            os.setuid(_NOBODY)
            listening.listen()  # the system notes who listens
            listening.settimeout(_SECONDS)
            there, _ = listening.accept()
            os._exit(0 if there.recv(1) == b"" else 1)
        with relay(path) as port:
            ended = (0, 0)
            while ended[0] == 0:
                _say(socket.AF_INET, "127.0.0.1", port, b"hello")
                ended = os.waitpid(child, os.WNOHANG)
                time.sleep(0.1)
        assert ended == (child, 0)


def test_whose_socket_it_is() -> None:
    """As soon as its process has closed it, it is nobody's, though it may still have bytes on their way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        there = socket.create_connection(("127.0.0.1", port))
        own = there.getsockname()[1]
        here, _ = server.accept()
        with here:
            assert owners([own], port) == {own: os.geteuid()}
            assert owners([own], own) == {}
            there.sendall(b"late")
            there.close()
            assert owners([own], port) == {}
            assert here.recv(10) == b"late"


def test_without_a_server_a_connection_ends(tmp_path: Path) -> None:
    with relay(str(tmp_path / "nothing")) as port, socket.create_connection(("127.0.0.1", port), _SECONDS) as there:
        assert there.recv(1) == b""


def test_who_listens_no_more_answers_no_more(echo: str) -> None:
    with relay(echo) as port:
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_that_ends_ends_the_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        with relay(path) as port, socket.create_connection(("127.0.0.1", port), _SECONDS) as there:
            there.sendall(b"x")
            here, _ = server.accept()
            assert here.recv(1) == b"x"
            here.close()
            assert there.recv(1) == b""
