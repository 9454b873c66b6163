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
import uv

from py_driver.errors import Code, DriverError
from py_driver.output import Output
from py_driver.system.beside import beside
from py_driver.system.cache import CACHE_VARIABLE
from py_driver.system.uv import requirement
from py_driver.system.venv import ensure_venv, unused

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
    return str(_wheel(tmp_path, "nothing", "1.0"))


def _wheel(place: Path, name: str, version: str) -> Path:
    wheel = place / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "VALUE = 1\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def test_imports_leave_bytecode(package: str, output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    root = ensure_venv("test", [package], output, imports=["nothing", "missing"]).parents[1]
    assert [path.name.partition(".")[0] for path in root.glob("lib/python*/site-packages/__pycache__/*")] == ["nothing"]


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
    seen = [
        ensure_venv("test", [package], output, python=interpreter, inherit=True)
        for interpreter in (sys.executable, str(python))
    ]
    assert len({python, *seen}) == 3


def test_pip_that_fails_leaves_nothing_that_counts(cache: Path, output: Output, tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        ensure_venv("test", [str(tmp_path / "missing.whl")], output)
    assert caught.value.diagnostics[0].code is Code.SET_UP
    assert "missing.whl" in caught.value.diagnostics[0].message
    assert not list(cache.glob("venvs/test-*/complete"))


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


def _installer(python: Path, name: str = "nothing") -> str:
    [file] = python.parents[1].glob(f"lib/python*/site-packages/{name}-*.dist-info/INSTALLER")
    return file.read_text().strip()


@pytest.fixture
def index(tmp_path: Path, package: str) -> Path:
    """The pages of a package index with that wheel alone."""
    place = tmp_path / "index" / "simple" / "nothing"
    place.mkdir(parents=True)
    (place / Path(package).name).write_bytes(Path(package).read_bytes())
    (place / "index.html").write_text(f"<a href='{Path(package).name}'>{Path(package).name}</a>")
    (place.parent / "index.html").write_text("<a href='nothing/'>nothing</a>")
    return place.parent


@pytest.fixture
def uv_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of PATH with uv; it keeps what it downloads to itself."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "uv").symlink_to(uv.find_uv_bin())
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return place


@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"])
@pytest.mark.usefixtures("uv_on_path")
def test_uv_installs_from_where_pip_would(
    variable: str, index: Path, output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable == "PIP_EXTRA_INDEX_URL":
        empty = tmp_path / "empty"
        empty.mkdir()
        monkeypatch.setenv("PIP_INDEX_URL", empty.as_uri())
    if variable == "PIP_FIND_LINKS":
        monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv(variable, str(index / "nothing") if variable == "PIP_FIND_LINKS" else index.as_uri())
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")  # uv's configuration has no say
    python = ensure_venv("test", ["nothing"], output)
    assert _installer(python) == "uv"
    assert subprocess.run([python, "-c", "import nothing"], check=False).returncode == 0
    assert not list(python.parents[1].glob(".uv-cache"))


@pytest.mark.parametrize("setting", ["PIP_PRE=1", "PIP_CACHE_DIR=/dev/null", "PIP_NO_DEPS=1"])
@pytest.mark.usefixtures("uv_on_path")
def test_pip_installs_what_uv_has_no_word_for(
    setting: str, package: str, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*setting.split("="))
    assert _installer(ensure_venv("test", [package], output)) == "pip"


@pytest.mark.usefixtures("uv_on_path")
def test_a_constraint_of_pips_binds_uv(
    index: Path, output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("nothing<1\n")
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    with pytest.raises(DriverError) as caught:
        ensure_venv("test", ["nothing"], output)
    assert "pip could not install nothing" in caught.value.diagnostics[0].message
    constraints.write_text("nothing<2\n")
    assert _installer(ensure_venv("test", ["nothing"], output)) == "uv"


@pytest.mark.usefixtures("uv_on_path")
def test_what_uv_may_not_keep_is_gone(
    index: Path, output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    python = ensure_venv("test", ["nothing"], output)
    assert _installer(python) == "uv"
    assert not (tmp_path / "uv-cache").exists()
    assert not (python.parents[1] / ".uv-cache").exists()


@pytest.mark.parametrize("program", ["exit 1", "echo uv 0.1.0 (old)", "echo uv 0.13.9; test $1 = --version"])
def test_a_uv_that_is_old_or_fails_leaves_it_to_pip(
    program: str, index: Path, output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has no uv, either."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "uv").write_text(f"#!/bin/sh\n{program}\n")
    (place / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    assert _installer(ensure_venv("test", ["nothing"], output)) == "pip"


def test_uv_comes_from_the_index_and_goes_unused(
    index: Path, cache: Path, output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    wheel = _wheel(tmp_path, "uv", requirement().partition("==")[2])
    with zipfile.ZipFile(wheel, "a") as archive:
        script = zipfile.ZipInfo(f"{wheel.name.removesuffix('-py3-none-any.whl')}.data/scripts/uv")
        script.external_attr = 0o100755 << 16
        archive.writestr(script, Path(uv.find_uv_bin()).read_bytes())
    (index / "uv").mkdir()
    wheel.rename(index / "uv" / wheel.name)
    (index / "uv" / "index.html").write_text(f"<a href='{wheel.name}'>{wheel.name}</a>")
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    assert _installer(ensure_venv("test", ["nothing"], output)) == "uv"
    [own] = cache.glob("venvs/uv-*/bin/uv")
    assert (own.parents[1] / "cache").is_dir()
    assert unused(cache / "venvs", 1) == []
    os.utime(own.parents[1] / "complete", (1, 1))
    assert unused(cache / "venvs", 1) == [own.parents[1]]


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
    assert not list(cache.glob("venvs/test-*/complete"))
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
    assert not list(cache.glob("venvs/test-*/complete"))


def test_an_environment_beside_work_that_fails_leaves_no_pip(
    cache: Path, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_TIMEOUT", "300")
        silent.settimeout(_SECONDS)
        with (  # noqa: PT012  (the block waits for pip)
            pytest.raises(ValueError, match="the build"),
            beside(lambda work: ensure_venv("test", ["nothing"], output, started=work.started)),
        ):
            connection, _ = silent.accept()
            raise ValueError("the build")
        with connection:
            connection.settimeout(_SECONDS)
            while connection.recv(4096):  # ends when nobody has the other side
                pass
    assert not list(cache.glob("venvs/test-*/complete"))
