"""Sources that compile with fewer of torch's headers too, and could mean something else: then all headers are read."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, PROJECTS, Built, Driver, copy_project

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_RUN = """
import json, pathlib, sys, torch
from kernels import get_local_kernel
ops = get_local_kernel(pathlib.Path(sys.argv[1])).ops
x = torch.ones(3)
ops.save(x)
print(json.dumps([ops.parallel(x), x.tolist(), pathlib.Path("x.bin").exists(), ops.strings()]))
"""
_MACRO = "a macro that it uses differs"
_FACTORIES = "torch/csrc/autograd/generated/variable_factories.h"


@pytest.fixture(scope="module")
def meaning(clone: Driver, base: Path) -> Built:
    project = copy_project(PROJECTS / "meaning", base / "meaning")
    words = ("--variant", CPU, "--variant", CU130, "--report", base / "meaning.html")
    said = clone.run("build", project, "--json", *words).stdout
    return Built(driver=clone, project=project, result=json.loads(said))


def test_host_code_is_what_was_written(meaning: Built, tmp_path: Path) -> None:
    command = [python_for([parse(CPU)], Releases(), Output()), "-c", _RUN, str(meaning.build)]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, env=curated()).stdout
    assert json.loads(said) == ["D21_PARALLEL", [2.0, 2.0, 2.0], True, 2]


def test_host_and_device_agree(meaning: Built) -> None:
    made = "*/execroot/_main/bazel-out/*/bin/projects/meaning/*.objects/csrc"
    for arch in ("80", "90"):
        [params] = meaning.driver.output.glob(f"{made}/launch_params.cu.phases/{arch}/device.ptx")
        assert re.findall(r"fill.*_param_0\[(\d+)\]", params.read_text()) == ["24"]
        [check] = meaning.driver.output.glob(f"{made}/own_check.cu.phases/{arch}/device.ptx")
        # torch has a macro CHECK, so the author's is not the one that counts.
        assert re.findall(r"\.entry (\w+)", check.read_text()) == ["_Z4fillILi0EEvPf"]
        [stub] = meaning.driver.output.glob(f"{made}/own_check.cu.phases/{arch}/stub.c")
        assert "_Z4fillILi0EEvPf" in stub.read_text()
        # The author's own `randint` returns a float, torch's a tensor.
        [factory] = meaning.driver.output.glob(f"{made}/own_factory.cu.phases/{arch}/device.ptx")
        assert re.findall(r"\.entry (\w+)", factory.read_text()) == ["_ZN5torch4markIN2at6TensorEEEvPf"]


def test_the_report_says_why(meaning: Built, base: Path) -> None:
    assert meaning.result["variants"]
    sources = json.loads((base / "meaning.json").read_text())["sources"]
    why = {source["source"]: {(torch["read"], torch["why"]) for torch in source["torch"]} for source in sources}
    assert why == {
        "csrc/parallel_macro.cpp": {("needed", "")},  # its words bring in the header with the macro
        "csrc/own_save.cpp": {("all", "torch/serialize.h declares `save`")},
        "csrc/comment_words.cpp": {("all", "it includes no umbrella header")},
        "csrc/launch_params.cu": {("all", _MACRO)},
        "csrc/own_check.cu": {("all", _MACRO)},
        "csrc/own_factory.cu": {("all", f"{_FACTORIES} declares `randint`")},
        "torch-ext/torch_binding.cpp": {("needed", "")},
    }
