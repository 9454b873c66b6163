"""A kernel that depends on two others of this machine: run, tested and packed with them, and nothing from the Hub."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, copy_project

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

VARIANTS = "torch{213-cxx11,}-cpu*"
_USE = """
import torch, combined
x = torch.tensor([0.0, 1.5])
assert torch.equal(combined.combined(x), torch.tensor([1.0, 4.0]))
print(combined.__file__, combined._doubled.__name__)
"""


@pytest.fixture(scope="module")
def projects(base: Path) -> Path:
    return copy_project(PROJECTS / "depends", base / "depends")


def test_a_kernel_is_tested_with_others_of_this_machine(clone: Driver, projects: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1"}
    one = projects / "combined"
    words = (one, "--torch=2.13", f"--with={projects / 'doubled'}", f"--with={projects / 'shifted'}")
    done = clone.run("test", *words, "--", "-q", env=offline)
    assert "1 passed" in done.stdout
    done = clone.run("run", *words, "--", "python", "-c", _USE, env=offline)
    assert "/.dev/" in done.stdout
    missing = clone.run("test", one, "--torch=2.13", f"--with={projects / 'doubled'}", code=2)
    assert "`combined` depends on `tests/shifted`, which no directory of --with is" in missing.stderr


def test_a_wheel_has_the_kernels_that_it_depends_on(clone: Driver, projects: Path, tmp_path: Path) -> None:
    names = [projects / name for name in ("combined", "doubled", "shifted")]
    clone.run("build", *names, f"--variant={VARIANTS}")
    out = tmp_path / "dist"
    clone.run("wheel", names[0], f"--with={projects}", "--variant=torch-cpu", f"--out={out}")
    [wheel] = out.iterdir()
    assert wheel.name == "combined-1.0+cpu-cp39-abi3-manylinux_2_28_x86_64.whl"
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, str(wheel)], check=True)
    python = python_for([parse("torch213-cxx11-cpu-x86_64-linux")], Releases(), Output())
    environ = {**os.environ, "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([python, "-c", _USE], env=environ, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(site / "combined" / "_variants" / "torch-cpu" / "__init__.py"),
        "combined._depends.doubled",
    ]
