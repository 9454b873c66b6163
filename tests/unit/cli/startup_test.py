"""The commands that only read load nothing that they do not need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import CORPUS, make_project

ROOT = Path(__file__).parents[3]
HEAVY = ("argcomplete", "torch", "numpy", "huggingface_hub", "jinja2", "rich", "tomlkit", "jsonschema", "kernels")
SLOW = ("dataclasses", "inspect", "hashlib", "subprocess", "http.client")
"""Modules of Python itself that would take a third of the time that `check` and `variants` have."""

_PROGRAM = """
import sys
from py_driver.__main__ import main
code = main(sys.argv[2:])
print(code, sorted(set(sys.modules) & set(sys.argv[1].split(","))), file=sys.stderr)
"""


@pytest.mark.parametrize("command", [["check"], ["check", "--json"], ["variants"], ["gen", "--check"]], ids=" ".join)
def test_no_heavy_module(command: list[str], tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project / "build.toml").write_bytes((CORPUS / "edition5.toml").read_bytes())
    subprocess.run([sys.executable, "-m", "py_driver", "gen", project], cwd=ROOT, capture_output=True, check=True)
    command = [
        sys.executable,
        "-c",
        _PROGRAM,
        ",".join(HEAVY if command[0] == "gen" else HEAVY + SLOW),
        *command,
        str(project),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"


_INTERRUPTED = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "py_driver.errors":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("command", [["driver"], ["-m", "py_driver"]], ids=" ".join)
def test_interrupted_before_anything_is_done(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *command, "--version"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
