"""Upstream's example projects, written anew: which are taken, what they are built into, and their tests on a CPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, CU130
from upstream import EXAMPLES, write_example

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

_RUN = Path(__file__).parents[1] / "helpers" / "run_tests.py"
_IN_CI = ("extra-data", "relu-torch-stable-abi", "silu-and-mul")
_OF_CPU = (*_IN_CI, "cpp20-symbols", "relu", "symbol-conflicts", "symbol-conflicts2")
_REFUSED = "relu-invalid-capability"
_ONE_ARCH = "relu-archs-subset"


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("upstream")
    for name in EXAMPLES:
        write_example(name, base)
    return base


def answers(text: str) -> dict[str, Any]:
    return {Path(project["directory"]).name: project for project in json.loads(text)["projects"]}


def test_every_example_is_taken_but_one(clone: Driver, projects: Path) -> None:
    found = answers(clone.run("check", projects, "--json", code=2).stdout)
    assert {*found} == {*EXAMPLES}
    assert {name: result["errors"][0]["code"] for name, result in found.items() if result["errors"]} == {
        _REFUSED: "E011"
    }
    strict = answers(clone.run("check", projects, "--strict", "--json", code=2).stdout)
    codes = {name: {error["code"] for error in result["errors"]} for name, result in strict.items() if result["errors"]}
    assert codes["silu-and-mul-bad-registration"] == {"E110"}
    assert codes["relu"] == {"E101"}  # files of sections for backends that are not built


@pytest.mark.parametrize(
    ("names", "count"), [(_IN_CI, 4), pytest.param(_OF_CPU, 7, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_on_the_cpu(clone: Driver, projects: Path, names: tuple[str, ...], count: int) -> None:
    directories = [projects / name for name in names]
    found = answers(clone.run("build", *directories, "--torch=2.13", "--backend=cpu", "--json").stdout)
    built = {name: [variant["variant"] for variant in found[name]["variants"]] for name in names}
    assert built == {
        **{name: [CPU] for name in names},
        "relu-torch-stable-abi": ["torch-stable-abi211-cpu-x86_64-linux"],
        "silu-and-mul": ["torch-cpu"],
    }
    python = python_for([parse(CPU)], Releases(), Output())
    tests = [str(test) for name in names for test in sorted((projects / name / "tests").glob("test_*.py"))]
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run([python, _RUN, *tests], capture_output=True, text=True, check=False, env=env, cwd=projects)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" passed\n") == len(tests) == count


@pytest.mark.slow
def test_for_cuda(clone: Driver, projects: Path) -> None:
    assert (
        "torch213-cxx11-cu126-x86_64-linux" in clone.run("variants", projects / "relu-specific-torch", "--all").stdout
    )
    # Flags arrive; 5.0 is of no nvcc of CUDA 13.
    names = ("relu-compiler-flags", _ONE_ARCH, "relu-backprop-compile")
    quick = [projects / name for name in names if name != _ONE_ARCH]
    found = answers(clone.run("build", *quick, "--torch=2.13", "--backend=cu130", "--archs=9.0", "--json").stdout)
    assert {name: result["variants"][0]["archs"] for name, result in found.items()} == {
        example.name: ["9.0"] for example in quick
    }
    [variant] = clone.build(projects / _ONE_ARCH, CU130)["variants"]
    assert variant["archs"] == ["7.5", "8.0", "9.0"]
