"""A binding without any kernel section: its op works, and it is linked for GPUs too."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CPU, CU130, PROJECTS, ROCM, action_counts, copy_project

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_CALL = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
x = torch.arange(3.0)
torch.testing.assert_close(get_local_kernel(Path(sys.argv[1]), backend="cpu").plus(x), x + 1)
"""


def test_binding_alone_is_built_and_called(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "binding_only", base / "binding_only")
    assert action_counts(clone.build(project, CPU, CU130, ROCM)) == (3 * BINDING, 0, 0)
    for variant, family in ((CPU, "cpu"), (CU130, "cuda"), (ROCM, "rocm")):
        metadata = json.loads((project / "build" / variant / "metadata.json").read_text())
        assert metadata["backend"] == {"type": family}
        assert list((project / "build" / variant).glob("*.abi3.so"))
    python = python_for([parse(CPU)], Releases(), Output())
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    command = [python, "-c", _CALL, str(project / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
