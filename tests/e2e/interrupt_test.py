"""A run that the network or a signal ends: it says so, leaves nothing half done, and the next run succeeds."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from clone import CPU, TWO, action_counts, copy_project, digests, make_mirror, wait_for_process

from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clone import Built, Driver

    from py_driver.fetch.store import Store

pytestmark = pytest.mark.e2e

_CLOSED = "http://127.0.0.1:9/simple"
_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
_BACKGROUND = ("env", "--ignore-signal=INT")
_OFFLINE = {"PIP_INDEX_URL": _CLOSED, "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "1", "PIP_TIMEOUT": "2"}
_COMPILER = "ziglang"


@pytest.fixture
def project(tiny: Built, base: Path, tmp_path: Path) -> Path:
    return copy_project(tiny.project, base / "interrupt" / tmp_path.name)


def test_first_run_of_a_checkout_without_network(clone: Driver, base: Path, tmp_path: Path) -> None:
    environ = {"RULES_TORCH_KERNELS_CACHE": str(base / "caches" / tmp_path.name), **_OFFLINE}
    failed = clone.run("build", "examples/relu", env=environ, code=4)
    assert "error[E301]" in failed.stderr
    assert "its package index cannot be reached (Connection refused)" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_first_build_without_network(empty: Driver, project: Path, store: Store, tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", store, without=_COMPILER)
    before = digests(project)
    environ = {"RULES_TORCH_KERNELS_MIRROR": str(mirror)}
    failed = empty.run("build", project, f"--variant={CPU}", env={**environ, **_OFFLINE}, code=4)
    assert "error[E301]" in failed.stderr
    assert _COMPILER in failed.stderr
    assert "RULES_TORCH_KERNELS_MIRROR" in failed.stderr
    assert digests(project) == before
    [entry] = [entry for entry in Releases().lock.entries_for([]) if entry.name == _COMPILER]
    (mirror / entry.mirror_name).symlink_to(store.path(entry))
    empty.build(project, CPU, env={**environ, **_OFFLINE})


class _Index(BaseHTTPRequestHandler):
    """A package index that offers one file and, until it may, sends half of it."""

    protocol_version = "HTTP/1.1"

    def __init__(self, file: Path, name: str, may: threading.Event, half: threading.Event, *args: object) -> None:
        self.file, self.name, self.may, self.half = file, name, may, half
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if not self.path.startswith("/files/"):
            self._send(f'<a href="/files/{self.name}">{self.name}</a>'.encode(), "text/html")
            return
        content = self.file.read_bytes()
        wanted = self.headers.get("Range", "")
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        if self.may.is_set():
            self._send(content, "application/octet-stream", start)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"one"')
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.half.set()
        self.may.wait()
        self.close_connection = True

    def _send(self, content: bytes, kind: str, start: int = 0) -> None:
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", '"one"')
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start:])

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def index(store: Store) -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """Its address, what lets it send all, and what says that half was sent."""
    [entry] = [entry for entry in Releases().lock.entries_for([]) if entry.name == _COMPILER]
    may, half = threading.Event(), threading.Event()
    handler = partial(_Index, store.path(entry), entry.filename, may, half)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple", may, half
        may.set()
        server.shutdown()


@pytest.mark.parametrize("kill", _SIGNALS, ids=["int", "term", "kill"])
def test_interrupted_download(  # noqa: PLR0913  (a machine has many parts)
    empty: Driver,
    project: Path,
    store: Store,
    tmp_path: Path,
    index: tuple[str, threading.Event, threading.Event],
    kill: signal.Signals,
) -> None:
    url, may, half = index
    mirror = make_mirror(tmp_path / "mirror", store, without=_COMPILER)
    environ = {**_OFFLINE, "PIP_INDEX_URL": url, "RULES_TORCH_KERNELS_MIRROR": str(mirror), "PIP_TIMEOUT": "60"}
    with empty.start("build", project, f"--variant={CPU}", env=environ) as process:
        assert half.wait(60)
        os.killpg(process.pid, kill)
        _, err = process.communicate(timeout=30)
    assert process.returncode == (-kill if kill is signal.SIGKILL else 130), err
    assert not (project / "build").exists()
    [entry] = [entry for entry in Releases().lock.entries_for([]) if entry.name == _COMPILER]
    assert not (empty.cache / "store" / "sha256" / entry.sha256).exists()
    may.set()
    result = empty.build(project, CPU, env=environ)
    assert [variant["variant"] for variant in result["variants"]] == [CPU]
    assert 0 < result["bytes-fetched"] <= entry.size + 10_000
    assert (empty.cache / "store" / "sha256" / entry.sha256).stat().st_size == entry.size
    assert [path for path in (empty.cache / "store" / "partial").iterdir() if path.stat().st_size] == []


@pytest.mark.parametrize(
    ("kill", "within"),
    [*((number, ()) for number in _SIGNALS), (signal.SIGTERM, _BACKGROUND)],
    ids=["int", "term", "kill", "term in the background"],
)
def test_interrupted_build(
    installed: Driver, project: Path, tiny: Built, kill: signal.Signals, within: tuple[str, ...]
) -> None:
    binding = project / "torch-ext" / "binding.cpp"
    quick = binding.read_text()
    slow = f"slow_{kill.name.lower()}_{len(within)}.cpp"
    (project / "torch-ext" / slow).write_text("#include <torch/library.h>\n")
    manifest = project / "build.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace('["torch-ext/binding.cpp"]', f'["torch-ext/binding.cpp", "torch-ext/{slow}"]'))
    with installed.start("build", project, f"--variant={TWO}", within=within) as process:
        wait_for_process("clang", slow)
        os.killpg(process.pid, kill)
        _, err = process.communicate(timeout=60)
    assert process.returncode == (-kill if kill is signal.SIGKILL else 130), err
    assert not (project / "build").exists()
    manifest.write_text(text)
    assert binding.read_text() == quick
    assert action_counts(installed.build(project, TWO))[1] == 0
    assert digests(project / "build") == digests(tiny.build)
