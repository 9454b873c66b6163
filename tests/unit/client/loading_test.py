"""When a project is built again, and two processes that load it at once: one builds, and both have the build."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rules_torch_kernels import loading

CLIENT = Path(__file__).resolve().parents[3] / "py_driver" / "client"
DRIVER = """
import json, os, pathlib, sys, time
root = pathlib.Path(sys.argv[2])
with open(root.parent / "calls", "a") as calls:
    calls.write("built\\n")
deadline = time.monotonic() + 10
while len(list(root.parent.glob("started-*"))) < 2 and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.2)
(root / ".dev" / "tree").mkdir()
print(json.dumps({"path": str(root / ".dev" / "tree"), "variant": "any"}))
"""
LOADS = """
import os, pathlib, sys
from rules_torch_kernels.loading import newest
root = pathlib.Path(sys.argv[1])
(root.parent / f"started-{os.getpid()}").touch()
print(newest(root, "")["path"])
"""


def _state(root: Path) -> str:
    return loading.state_of(root, "cpu")


def test_a_file_behind_a_link_is_a_source(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    root, shared = tmp_path / "project", tmp_path / "shared"
    for path in (root / "csrc" / "a.cpp", shared / "b.h", shared / "inner" / "c.h", root / "build" / "d.h"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    (root / "csrc" / "b.h").symlink_to("../../shared/b.h")
    (root / "inner").symlink_to("../shared/inner")
    (root / "csrc" / "loop").symlink_to("..")
    (root / "csrc" / "nothing").symlink_to("nowhere")
    states = [_state(root)]
    assert _state(root) == states[0]
    (root / "build" / "d.h").write_text("12")
    assert _state(root) == states[0]
    for path in (root / "csrc" / "a.cpp", shared / "b.h", shared / "inner" / "c.h"):
        path.write_text("12")
        states.append(_state(root))
    assert len({*states}) == 4


def test_a_link_out_of_the_repository_is_not_followed(tmp_path: Path) -> None:
    root, data = tmp_path / "project", tmp_path / "data"
    root.mkdir()
    data.mkdir()
    (root / "data").symlink_to("../data")
    before = _state(root)
    (data / "a").write_text("1")
    assert _state(root) == before


def test_a_build_for_another_matrix_or_driver_is_another_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = tmp_path / "releases.toml"
    (tmp_path / "project").mkdir()
    states = [_state(tmp_path / "project")]
    monkeypatch.setenv(loading.MATRIX, str(matrix))
    states.append(_state(tmp_path / "project"))
    for path in (matrix, matrix.with_suffix(".lock.json")):
        path.write_text("1")
        states.append(_state(tmp_path / "project"))
    monkeypatch.setenv(loading.DRIVER, "another")
    states.append(_state(tmp_path / "project"))
    assert len({*states}) == 5


def test_two_processes_at_once_build_once(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "driver.py").write_text(DRIVER)
    driver = f"{sys.executable} {tmp_path / 'driver.py'}"
    environ = {**os.environ, "PYTHONPATH": str(CLIENT), "RULES_TORCH_KERNELS_DRIVER": driver}
    command = [sys.executable, "-c", LOADS, str(root)]
    started = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in started] == [f"{root / '.dev' / 'tree'}\n"] * 2
    assert (tmp_path / "calls").read_text() == "built\n"
    assert (root / ".dev" / ".gitignore").read_text() == "*\n"


def test_an_edit_in_place_that_keeps_size_and_modification_time_is_another_state(tmp_path: Path) -> None:
    source = tmp_path / "a.h"
    source.write_text("#define A 1\n")
    before, times = _state(tmp_path), source.stat()
    source.write_text("#define A 2\n")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert _state(tmp_path) != before


FORK = """
import os, pathlib, sys, threading
from rules_torch_kernels import load, loading

building, forked = threading.Event(), threading.Event()
loading.newest = lambda *_, **__: (building.set(), forked.wait(), {"path": "."})[-1]
loading.load_variant = lambda _: sys
thread = threading.Thread(target=load, args=sys.argv[1:])
thread.start()
building.wait()
child = os.fork()
forked.set()
if child == 0:
    loading.newest = lambda *_, **__: {"path": "."}
    os._exit(load(sys.argv[1]) is not sys)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_is_forked_while_a_thread_builds_can_load(tmp_path: Path) -> None:
    (tmp_path / "build.toml").touch()
    environ = {**os.environ, "PYTHONPATH": str(CLIENT)}
    done = subprocess.run([sys.executable, "-c", FORK, tmp_path], env=environ, timeout=20, check=False)
    assert done.returncode == 0


def test_a_process_that_is_forked_during_a_turn_does_not_prolong_it(tmp_path: Path) -> None:
    with loading.turn(tmp_path):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the parent has looked
            os._exit(0)
    try:
        with (tmp_path / "known.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(write)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("file", "said"), [("", "there is no .*/build.toml$"), ("setup.py", "build.toml; install a project with")]
)
def test_a_directory_without_a_build_toml_is_refused_and_left_alone(tmp_path: Path, file: str, said: str) -> None:
    root = tmp_path / "project"
    if file:
        root.mkdir()
        (root / file).touch()
    with pytest.raises(loading.BuildError, match=said):
        loading.load(root)
    assert [path.name for path in tmp_path.rglob("*")] == (["project", "setup.py"] if file else [])


PACKAGE = """
import json, sys

def main():
    path = sys.argv[2] + "/.dev/tree"
    __import__("os").mkdir(path)
    print(json.dumps({"path": path, "variant": "any"}))
"""


def test_a_driver_whose_program_is_not_on_the_path_is_imported(tmp_path: Path) -> None:
    root, package = tmp_path / "project", tmp_path / "site" / "py_driver"
    root.mkdir()
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(PACKAGE)
    environ = {"PYTHONPATH": f"{package.parent}:{CLIENT}", "PATH": os.devnull}
    command = [sys.executable, "-c", LOADS, str(root)]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{root}/.dev/tree\n", "")
