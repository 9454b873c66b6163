"""When a project is built again, and two processes that load it at once: one builds, and both have the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rules_torch_kernels import loading

if TYPE_CHECKING:
    import pytest

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
