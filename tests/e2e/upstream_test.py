"""What upstream's builder takes, and this one refused once: headers of other sections, csrc, slips in lists."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, PROJECTS, copy_project

from py_driver.building.example import python_for
from py_driver.matrix.cells import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_LOAD = """
import pathlib, sys
from kernels import get_local_kernel
print(get_local_kernel(pathlib.Path(sys.argv[1])).twice_and_one(20))
"""


def test_a_project_as_upstream_takes_it(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "spread", base / "spread")
    result = clone.build(project, CPU, CU130)
    archs = {one["variant"]: one["archs"] for one in result["variants"]}
    assert archs == {CPU: [], CU130: ["9.0"]}
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    command = [python, "-c", _LOAD, str(project / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert (done.returncode, done.stdout) == (0, "41\n"), done.stderr
    # What the other sections list, and the section does not reach, is no input of it.
    (project / "csrc" / "sum.h").write_text("#pragma once\n\nint sum(int count);  // changed\n", encoding="utf-8")
    steps = clone.build(project, CU130)["variants"][0]["steps"]
    assert steps["run"] > 0
    (project / "lib" / "scale.cpp").write_text('#include "scale.hpp"\n\nint scale(int c) { return 2 * c; }\n')
    assert clone.build(project, CU130)["variants"][0]["steps"]["run"] == 0
