"""Provides a real Bazel from the machine's Debian mirror: some minutes, and 140 MB a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import stop_servers

from py_driver.bazel.find import Bazel, Source
from py_driver.bazel.run import run
from py_driver.debian import provide as debian
from py_driver.errors import DriverError
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.e2e

_POINTS = ("*.partial/debs/*.deb", "*.partial/tree/usr/share/java", "7.7.1-*/packages.json")
_IN_CI = {(_POINTS[0], signal.SIGINT), (_POINTS[1], signal.SIGKILL)}
"""Where and how a run is interrupted in CI; the other ways are slow."""
_ROOT = Path(__file__).parents[2]
_CODE = (
    "import pathlib, sys; from py_driver.debian import provide as debian; from py_driver.output import Output;"
    "print(debian.provide(pathlib.Path(sys.argv[1]), Output()))"
)
_SECONDS = 300


def _start(cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _CODE, str(cache)]
    return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bazel(cache: Path, tmp_path: Path) -> Iterator[Bazel]:
    path = debian.provide(cache, Output())
    root = tmp_path / "output"
    bazel = Bazel(path=path, version="7.7.1", source=Source.DEBIAN, startup=(f"--output_user_root={root}",))
    yield bazel
    stop_servers(root.glob("*"))
    subprocess.run(["chmod", "-R", "u+w", root], check=False)


@pytest.mark.parametrize(
    ("point", "kill"),
    [
        pytest.param(*one, marks=() if one in _IN_CI else pytest.mark.slow, id=f"{one[0]}-{one[1].name}")
        for one in product(_POINTS, (signal.SIGINT, signal.SIGKILL))
    ],
)
def test_interrupted(cache: Path, point: str, kill: signal.Signals) -> None:
    process = _start(cache)
    deadline = time.monotonic() + _SECONDS
    while not any((cache / "bazel").glob(point)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(kill)
    process.communicate()
    assert process.returncode != 0
    assert not list(cache.glob("bazel/*/complete"))
    if kill is signal.SIGINT:
        assert not list(cache.glob("bazel/*.partial"))


def test_two_runs_at_once_provide_one(cache: Path) -> None:
    processes = [_start(cache) for _ in range(2)]
    answers = [process.communicate(timeout=2 * _SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert sum("waiting" in err for _, err in answers) == 1
    place = Path(answers[0][0].strip()).parent
    assert sorted(p.name for p in (cache / "bazel").iterdir()) == sorted([place.name, "lock"])
    packages = json.loads((place / "packages.json").read_text())["packages"]
    assert {"bazel-bootstrap", "libc6"} <= {p["name"] for p in packages}
    assert all(len(p["sha256"]) == 64 for p in packages)


_MODULES = {
    "empty": "",
    "ours": 'module(name = "rules_torch_kernels")\nbazel_dep(name = "platforms", version = "0.0.11")\n'
    'bazel_dep(name = "bazel_skylib", version = "1.7.1")\n',
}
_GENRULE = 'genrule(name = "g", outs = ["o"], cmd = "echo hi > $@", visibility = ["//visibility:public"])\n'
_SUITE = """\
load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")

def _impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, {expected}, 1)
    return unittest.end(env)

one_test = unittest.make(_impl)

def suite(name):
    unittest.suite(name, one_test)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, module: str, **files: str) -> Path:
        root = tmp_path / name
        root.mkdir()
        for file, text in {"MODULE.bazel": module, "BUILD.bazel": _GENRULE, **files}.items():
            (root / file.replace("__", ".")).write_text(text)
        return root

    return write


@pytest.mark.parametrize("name", _MODULES)
def test_builds_as_root_module(bazel: Bazel, workspace: Callable[..., Path], name: str) -> None:
    done = run(bazel, ["build", "//..."], workspace(name, _MODULES[name]), Output())
    [[file]] = done.events.outputs.values()
    assert file.read_text() == "hi\n"


def test_builds_as_dependency(bazel: Bazel, workspace: Callable[..., Path]) -> None:
    ours = workspace("ours", _MODULES["ours"])
    user = workspace(
        "user",
        'module(name = "user")\nbazel_dep(name = "rules_torch_kernels", version = "0")\n'
        f'local_path_override(module_name = "rules_torch_kernels", path = "{ours}")\n',
    )
    run(bazel, ["build", "@rules_torch_kernels//:g", "//:g"], user, Output())


def test_unit_tests_of_skylib(bazel: Bazel, workspace: Callable[..., Path]) -> None:
    build = 'load(":s.bzl", "suite")\nsuite(name = "unit")\n'
    files = {"BUILD__bazel": build, "s__bzl": _SUITE.format(expected=1)}
    root = workspace("ours", _MODULES["ours"], **files)
    run(bazel, ["test", "//..."], root, Output())
    (root / "s.bzl").write_text(_SUITE.format(expected=2))
    with pytest.raises(DriverError, match=r"tests failed: //:unit_test_0"):
        run(bazel, ["test", "//..."], root, Output())


def test_server_outlives_its_terminal(bazel: Bazel, workspace: Callable[..., Path]) -> None:
    root = workspace("w", "")
    command = [str(bazel.path), *bazel.startup, "info", "server_pid"]
    master, slave = os.openpty()
    first = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=slave, check=True, start_new_session=True)
    os.close(slave)
    os.close(master)
    second = subprocess.run(command, cwd=root, capture_output=True, check=True)
    assert first.stdout == second.stdout
