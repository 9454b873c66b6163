"""What `driver cache serve` refuses before it starts anything."""

from __future__ import annotations

import io
import socket
import stat
from pathlib import Path

import pytest

from py_driver.cache.server import Serving, command, serve
from py_driver.errors import Code, DriverError
from py_driver.output import Output
from py_driver.system.cache import CACHE_VARIABLE


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server could not be fetched: nothing here may try to."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")


def _serving(directory: Path, port: int | None = None) -> Serving:
    return Serving(directory=directory, port=port, size=1, execute=False, jobs=1)


def _refused(serving: Serving) -> tuple[Code, str, str]:
    with pytest.raises(DriverError) as caught:
        serve(serving, Output(io.StringIO(), io.StringIO(), {}))
    [found] = caught.value.diagnostics
    return found.code, found.message, found.help


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o1777])
def test_a_directory_that_others_may_enter(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(mode)
    code, message, advice = _refused(_serving(directory))
    assert code is Code.PERMISSION
    assert message == f"other users can enter {directory}, and change the results there"
    assert advice == f"chmod 700 {directory}, or name another with --directory"
    assert list(directory.iterdir()) == []


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)
    code, message, advice = _refused(_serving(directory))
    assert code is Code.SET_UP
    assert message == f"the path of the socket would be longer than 107 bytes: {directory}/socket"
    assert "--directory" in advice
    assert not directory.exists()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, message, _ = _refused(_serving(tmp_path / "served", port))
    assert code is Code.SET_UP
    assert message == f"port {port} cannot be used: Address already in use"
    assert stat.S_IMODE((tmp_path / "served").stat().st_mode) == 0o700


def test_a_server_listens_on_the_socket_alone(tmp_path: Path) -> None:
    line = command(_serving(tmp_path, 8980), Path("/programs"))
    assert [word for word in line if "bind" in word] == [f"--bind=unix:{tmp_path}/socket"]
    assert "--unix-socket-mode=0600" in line
