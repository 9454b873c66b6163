"""`driver adopt`: the kernel of a setup.py project is built, loads in the client, and answers as the module does."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, copy_project
from kernels._rust import Build  # type: ignore[import-untyped]

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_OF_CLIENT = """
import pathlib, runpy, sys
from kernels import get_local_kernel
kernel = get_local_kernel(pathlib.Path(sys.argv[1]))
assert kernel.__name__ != "scaled_ops"
sys.modules["scaled_ops"] = kernel
runpy.run_path(sys.argv[2], run_name="__main__")
"""


def _answers(*command: str, path: str = "") -> list[object]:
    """What tests/test_scaled.py prints."""
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path})
    python = python_for([parse(CPU)], Releases(), Output())
    done = subprocess.run([python, *command], capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_kernel_of_a_setup_py_answers_as_its_module(clone: Driver, base: Path) -> None:
    project, kernel = copy_project(PROJECTS / "adopted", base / "adopted"), base / "adopted-kernel"
    result = json.loads(clone.run("adopt", project, "--json").stdout)
    assert result["directory"] == str(kernel)
    assert not any(loss["missing"] for loss in result["losses"])
    Build.open(kernel)
    clone.build(project, CPU)
    clone.build(kernel, CPU)
    expected = _answers(str(project / "tests" / "test_scaled.py"), path=str(project / "build" / CPU))
    moved = kernel / "tests" / "test_scaled.py"
    assert _answers("-c", _OF_CLIENT, str(kernel / "build"), str(moved)) == expected
