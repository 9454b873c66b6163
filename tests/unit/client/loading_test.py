"""Two processes that load one project at once: one builds, and both have the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
