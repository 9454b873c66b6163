"""pip and uv install from the index of `driver index`, served by a plain web server on the loopback."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, ClassVar

import pytest
import uv
from wheels import small_wheel

from py_driver import __main__
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

BACKENDS = ("cpu", "cu126", "cu128", "cu130")
TORCHES = ("211", "213", "214", "215")
PIP = (sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--quiet", "--no-cache-dir")
UV = (uv.find_uv_bin(), "pip", "install", "--quiet", "--no-config", "--no-cache", "--python", sys.executable)


class _Server(http.server.SimpleHTTPRequestHandler):
    """A static web server that notes what it is asked for."""

    asked: ClassVar[list[str]] = []

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002  (the name in the standard library)
        del format
        self.asked.append(str(words[0]))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The address of a server of 40 wheels, and what it was asked for."""
    root = tmp_path_factory.mktemp("index")
    dist, empty = root / "dist", root / "empty"
    dist.mkdir()
    empty.mkdir()
    for release in ("1.0", "1.1"):
        for backend in BACKENDS:
            for torch in TORCHES:
                small_wheel(dist, "demo_kernel", f"{release}+{backend}.torch{torch}")
    small_wheel(dist, "demo_kernel", "2.0+cu130.torch213", python=">=4")
    for number in range(7):
        small_wheel(dist, "other", f"1.{number}", more="Requires-Dist: demo-kernel==1.0+cu126.torch211\n")
    assert len(list(dist.glob("*.whl"))) == 40
    assert __main__.main(["index", str(dist)]) == 0
    small_wheel(empty, "unrelated", "1.0")
    assert __main__.main(["index", str(empty)]) == 0
    handler = functools.partial(_Server, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", _Server.asked
    server.shutdown()
    server.server_close()
    thread.join()


def _installed(command: tuple[str, ...], target: Path, *words: str) -> str:
    """The version of the module that a command installs."""
    done = subprocess.run(
        [*command, f"--target={target}", *words], env=curated(), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (target / "demo_kernel.py").read_text().split("'")[1]


@pytest.mark.parametrize("command", [PIP, UV], ids=["pip", "uv"])
def test_version_and_local_version_choose(
    served: tuple[str, list[str]], command: tuple[str, ...], tmp_path: Path
) -> None:
    address, asked = served
    indexes = (f"--index-url={address}/empty/simple/", f"--extra-index-url={address}/dist/simple/")
    asked.clear()
    assert _installed(command, tmp_path / "a", *indexes, "demo-kernel==1.0+cu130.torch213") == "1.0+cu130.torch213"
    assert _installed(command, tmp_path / "b", *indexes, "Demo_Kernel==1.1+cpu.torch215") == "1.1+cpu.torch215"
    # 2.0 is for another Python; of the releases of 1.0, the local version that sorts last is the newest.
    assert _installed(command, tmp_path / "c", *indexes, "demo-kernel<1.1") == "1.0+cu130.torch215"
    # A wheel is downloaded that is installed; the others are judged by the copies of their metadata.
    assert _installed(command, tmp_path / "d", *indexes, "other") == "1.0+cu126.torch211"
    wheels = {line.split()[1].rpartition("/")[2] for line in asked if line.startswith("GET") and ".whl " in line}
    assert len(wheels) == 5
    assert any(".whl.metadata " in line for line in asked)


@pytest.mark.slow
@pytest.mark.parametrize("command", [PIP, UV], ids=["pip", "uv"])
def test_page_of_a_project_is_a_list_of_links(
    served: tuple[str, list[str]], command: tuple[str, ...], tmp_path: Path
) -> None:
    links = f"--find-links={served[0]}/dist/simple/demo-kernel/"
    wanted = "demo-kernel==1.1+cu126.torch214"
    assert _installed(command, tmp_path / "a", "--no-index", links, wanted) == "1.1+cu126.torch214"
