"""Takes Bazelisk from npm and points it at the Bazel that the driver provides."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import stop_servers

from py_driver.bazel import find
from py_driver.bazel.find import Bazel, Source, find_bazel
from py_driver.bazel.run import run
from py_driver.debian import provide as debian
from py_driver.errors import Code, DriverError
from py_driver.output import Output
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

_SECONDS = 300


@pytest.fixture(scope="module")
def provided() -> Path:
    return debian.provide(cache_root(), Output())


@pytest.fixture(scope="module")
def bazelisk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    root = tmp_path_factory.mktemp("npm")
    (root / "package.json").write_text("{}")
    command = ["npm", "install", "--no-audit", "--no-fund", "@bazel/bazelisk"]
    subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=_SECONDS)
    return root / "node_modules" / ".bin"


def _environ(bazelisk: Path, home: Path, **variables: str) -> dict[str, str]:
    node = shutil.which("node")
    assert node is not None
    return {"PATH": f"{bazelisk}:{Path(node).parent}:/usr/bin:/bin", "HOME": str(home), **variables}


def _workspace(root: Path, version: str) -> Path:
    (root / "MODULE.bazel").touch()
    (root / ".bazelversion").write_text(version)
    return root


def test_path_in_the_environment(bazelisk: Path, provided: Path, tmp_path: Path) -> None:
    err = io.StringIO()
    environ = _environ(bazelisk, tmp_path, USE_BAZEL_VERSION=str(provided))
    found = find_bazel(_workspace(tmp_path, "7.7.1\n"), Output(io.StringIO(), err, environ), environ)
    assert (found.path, found.version, found.source) == (bazelisk / "bazelisk", "7.7.1", Source.PATH)
    assert err.getvalue() == ""


def test_path_in_bazeliskrc(bazelisk: Path, provided: Path, tmp_path: Path) -> None:
    (_workspace(tmp_path, "7.7.1\n") / ".bazeliskrc").write_text(f"USE_BAZEL_VERSION={provided}\n")
    environ = _environ(bazelisk, tmp_path)
    assert find_bazel(tmp_path, Output(io.StringIO(), io.StringIO(), environ), environ).source is Source.PATH


def test_without_a_download_server_it_is_passed_over(
    bazelisk: Path, provided: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "provide", lambda _cache, _output, _sizes: provided)
    monkeypatch.setattr(find, "_ANSWER_SECONDS", 5.0)
    err = io.StringIO()
    environ = _environ(bazelisk, tmp_path, BAZELISK_BASE_URL="http://127.0.0.1:9")
    found = find_bazel(_workspace(tmp_path, "7.7.1\n"), Output(io.StringIO(), err, environ), environ)
    assert found.source is Source.DEBIAN
    assert "does not print its version; the driver expects 7.7.1" in err.getvalue()
    assert "127.0.0.1" not in err.getvalue()


def test_interrupted_with_the_bazel_that_it_runs(bazelisk: Path, provided: Path, tmp_path: Path) -> None:
    """Ctrl-C comes to this process alone."""
    _workspace(tmp_path, "7.7.1\n")
    up = tmp_path / "up"
    (tmp_path / "BUILD.bazel").write_text(f'genrule(name = "g", outs = ["o"], cmd = "touch {up}; sleep 600")\n')
    startup = (f"--output_user_root={tmp_path / 'output'}",)
    bazel = Bazel(path=bazelisk / "bazelisk", version="7.7.1", source=Source.PATH, startup=startup)
    environ = _environ(bazelisk, tmp_path, USE_BAZEL_VERSION=str(provided))

    def press() -> None:
        while not up.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(bazel, ["build", "--spawn_strategy=local", "//:g"], tmp_path, Output(), env=environ)
    assert time.monotonic() - start < _SECONDS
    stop_servers((tmp_path / "output").glob("*"))
    subprocess.run(["chmod", "-R", "u+w", tmp_path / "output"], check=False)


class _Releases(BaseHTTPRequestHandler):
    """A mirror of Bazel's releases, whose one release is the Bazel that the driver provides."""

    bazel = Path()

    def do_GET(self) -> None:
        found = self.path == "/7.7.1/bazel-7.7.1-linux-x86_64"
        body = f'#!/bin/sh\nexec {self.bazel} "$@"\n'.encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def releases(provided: Path) -> Iterator[str]:
    _Releases.bazel = provided
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Releases)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH with all programs of this machine but those of Debian's packages, Bazel and npm."""
    place = tmp_path / "bin"
    place.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = place / program.name
            if not program.name.startswith(("apt", "dpkg", "bazel", "npm", "node")) and not link.exists():
                link.symlink_to(program)
    monkeypatch.setenv("PATH", str(place))
    return str(place)


def test_a_machine_without_apt(releases: str, without_apt: str, tmp_path: Path) -> None:
    """npm comes out of a wheel, Bazelisk out of npm's package, Bazel from the mirror of its releases."""
    err, cache = io.StringIO(), tmp_path / "cache"
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "npm_config_", "NODE_"))}
    environ = {**kept, "PATH": without_apt, "HOME": str(Path.home()), "BAZELISK_BASE_URL": releases}
    environ["RULES_TORCH_KERNELS_CACHE"] = str(cache)
    found = find_bazel(_workspace(tmp_path, "7.7.1\n"), Output(io.StringIO(), err, environ), environ)
    assert (found.path, found.version, found.source) == (
        cache / "bazel" / "bazelisk-1.28.1" / "bazels" / "7.7.1" / "bazel",
        "7.7.1",
        Source.BAZELISK,
    )
    assert "cannot install it without `apt-get`; falling back to Bazelisk." in err.getvalue()
    again = find_bazel(tmp_path, Output(io.StringIO(), io.StringIO(), environ), {**environ, "BAZELISK_BASE_URL": ""})
    assert again.path == found.path, "it is fetched once"
    (tmp_path / ".bazelversion").write_text("7.6.2\n")
    with pytest.raises(DriverError, match=r"Bazelisk cannot fetch Bazel 7\.6\.2: .*not found") as caught:
        find_bazel(tmp_path, Output(io.StringIO(), io.StringIO(), environ), environ)
    assert caught.value.diagnostics[0].code is Code.NO_BAZEL
    assert sorted(path.name for path in (cache / "bazel").iterdir()) == ["bazelisk-1.28.1"]


def test_a_mirror_with_another_bazelisk(without_apt: str, tmp_path: Path) -> None:
    (tmp_path / "bazel-bazelisk-1.28.1.tgz").write_bytes(b"other")
    environ = {"PATH": without_apt, "HOME": str(tmp_path), "RULES_TORCH_KERNELS_MIRROR": str(tmp_path)}
    with pytest.raises(DriverError, match=r"has the SHA-256 .* is pinned") as caught:
        find_bazel(_workspace(tmp_path, "7.7.1\n"), Output(io.StringIO(), io.StringIO(), environ), environ)
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST
