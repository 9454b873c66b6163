"""`driver cache serve` on a machine with other users: they reach neither the server nor what it keeps."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import free_port, wait_for_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clone import Driver

pytestmark = pytest.mark.e2e

_NOBODY = 65534
_PREFACE = """
import encodings.idna, os, socket, sys
os.setuid(int(sys.argv[1]))
family = socket.AF_INET if sys.argv[2].isdigit() else socket.AF_UNIX
try:
    with socket.socket(family) as there:
        there.settimeout(30)
        there.connect(("127.0.0.1", int(sys.argv[2])) if family == socket.AF_INET else sys.argv[2])
        there.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0")
        print(len(there.recv(9)))
except OSError as wrong:
    print(type(wrong).__name__)
"""


def _start(driver: Driver, place: Path, *options: str) -> subprocess.Popen[str]:
    """A server that takes connections."""
    process = driver.start("cache", "serve", "--directory", place, *options)
    assert process.stderr is not None
    while "serving" not in (line := process.stderr.readline()):
        assert line
    return process


@pytest.fixture
def place(base: Path, tmp_path: Path) -> Iterator[Path]:
    """For what a server keeps; servers that still run there are ended."""
    yield base / tmp_path.name
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            mine = str(base / tmp_path.name) in path.read_text(errors="replace")
        except OSError:
            continue
        if mine:
            os.kill(int(path.parent.name), signal.SIGKILL)


def _answer(user: int, where: str) -> str:
    """What a process of a user gets of a server that speaks HTTP/2: the nine bytes of a frame's head, or an error."""
    done = subprocess.run(
        [sys.executable, "-c", _PREFACE, str(user), where], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_server_is_its_users_own(clone: Driver, place: Path) -> None:
    port = free_port()
    with _start(clone, place, f"--port={port}") as process:
        path = place / "socket"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [_answer(os.geteuid(), where) for where in (str(path), str(port))] == ["9", "9"]
        if os.geteuid() == 0:
            assert _answer(_NOBODY, str(path)) == "PermissionError"
            assert _answer(_NOBODY, str(port)) in {"0", "ConnectionResetError", "BrokenPipeError"}
            os.chmod(place, 0o755)  # noqa: PTH101, S103  (the socket's own mode is enough)
            assert _answer(_NOBODY, str(path)) == "PermissionError"
            os.chmod(place, 0o700)  # noqa: PTH101
        second = clone.run("cache", "serve", "--directory", place, code=4)
        assert f"another server already serves {place}" in second.stderr
        assert _answer(os.geteuid(), str(path)) == "9"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not path.exists()
    assert _answer(os.geteuid(), str(port)) == "ConnectionRefusedError"


def test_the_socket_of_a_server_that_was_killed(clone: Driver, place: Path) -> None:
    with _start(clone, place) as process:
        wait_for_process("buildbox-casd", str(place))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert (place / "socket").exists()
    with _start(clone, place) as process:
        assert _answer(os.geteuid(), str(place / "socket")) == "9"
        # A server whose driver alone was killed still serves.
        process.kill()
        process.wait(60)
        assert _answer(os.geteuid(), str(place / "socket")) == "9"
        refused = clone.run("cache", "serve", "--directory", place, code=4)
        assert f"another server already serves {place}" in refused.stderr
