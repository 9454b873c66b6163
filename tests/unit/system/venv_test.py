"""Python environments in the cache: made once, never half, and a clear error where pip fails."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from py_driver.errors import Code, DriverError
from py_driver.output import Output
from py_driver.system.cache import CACHE_VARIABLE
from py_driver.system.venv import ensure_venv

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
_SECONDS = 60


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_RETRIES", "1")
    return tmp_path / "cache"


@pytest.fixture
def output() -> Output:
    return Output(io.StringIO(), io.StringIO(), {})


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A requirement that needs no network: an empty wheel's worth of files, as pip takes them from a path."""

    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    info = "nothing-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nothing.py", "VALUE = 1\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return str(wheel)


def test_a_project_gives_python_no_module(
    tmp_path: Path, package: str, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("venv", "pip", "ensurepip", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(97)\n")
    monkeypatch.chdir(tmp_path)
    assert ensure_venv("mine", [package], output).exists()


def test_made_once(cache: Path, output: Output, package: str) -> None:
    python = ensure_venv("test", [package], output)
    assert python.is_relative_to(cache / "venvs")
    assert subprocess.run([python, "-c", "import nothing"], check=False).returncode == 0
    stamp = python.parent.parent.stat().st_mtime_ns
    assert ensure_venv("test", [package], output) == python
    assert python.parent.parent.stat().st_mtime_ns == stamp


def test_environments_of_one_interpreter_share_what_is_made(output: Output, package: str) -> None:
    """The driver may run in several of them; each would have a torch of its own."""
    python = ensure_venv("test", [package], output)
    assert ensure_venv("test", [package], output, python=str(python)) == python
    seen = [ensure_venv("test", [package], output, python=one, inherit=True) for one in (sys.executable, str(python))]
    assert len({python, *seen}) == 3


def test_pip_that_fails_leaves_nothing_that_counts(cache: Path, output: Output, tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        ensure_venv("test", [str(tmp_path / "missing.whl")], output)
    assert caught.value.diagnostics[0].code is Code.SET_UP
    assert "missing.whl" in caught.value.diagnostics[0].message
    assert not list(cache.glob("venvs/*/complete"))


def test_no_network_is_its_own_error(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(DriverError) as caught:
        ensure_venv("test", ["no-such-package-anywhere"], output)
    assert caught.value.diagnostics[0].code is Code.NO_NETWORK
    assert "cannot be reached (Connection refused)" in caught.value.diagnostics[0].message


def test_interpreter_that_cannot_make_environments(output: Output, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ERROR: no module named venv' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(DriverError) as caught:
        ensure_venv("test", [], output, python=str(python))
    assert caught.value.diagnostics[0].code is Code.SET_UP
    assert "no module named venv" in caught.value.diagnostics[0].message


def test_killed_half_way_is_made_anew(cache: Path, output: Output, package: str) -> None:
    code = (
        "import sys; from py_driver.system.venv import ensure_venv; from py_driver.output import Output;"
        "ensure_venv('test', [sys.argv[1]], Output())"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, package]
    with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        deadline = time.monotonic() + _SECONDS
        while not list(cache.glob("venvs/test-*/bin/python")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    assert not list(cache.glob("venvs/*/complete"))
    python = ensure_venv("test", [package], output)
    assert subprocess.run([python, "-c", "import nothing"], check=False).returncode == 0


def test_interrupted_alone_leaves_no_pip(cache: Path) -> None:
    code = (
        "import sys; from py_driver.system.venv import ensure_venv; from py_driver.output import Output;"
        "ensure_venv('test', ['nothing'], Output())"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PIP_INDEX_URL": index, "PIP_TIMEOUT": "300"}
        with subprocess.Popen([sys.executable, "-c", code], env=environ, stderr=subprocess.DEVNULL) as process:
            silent.settimeout(_SECONDS)
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            assert process.wait(_SECONDS) == -signal.SIGINT
        with connection:
            connection.settimeout(_SECONDS)
            while connection.recv(4096):  # ends when nobody has the other side
                pass
    assert not list(cache.glob("venvs/*/complete"))
