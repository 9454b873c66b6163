"""Python's headers: a binding that calls Python within the limited API, and sources that include torch/extension.h."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CPU, CU130, PROJECTS, Built, Driver, action_counts, copy_project, torch_actions

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_CALL = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
ops = get_local_kernel(Path(sys.argv[1])).ops
x = torch.randn(7, 5)
torch.testing.assert_close(ops.scale(x, -2.5), x * -2.5)
assert ops.module_name("some_name") == "some_name"
"""


@pytest.fixture(scope="module")
def python_api(clone: Driver, base: Path) -> Built:
    """The project, built for the CPU."""
    project = copy_project(PROJECTS / "python_api", base / "python_api")
    return Built(driver=clone, project=project, result=clone.build(project, CPU))


def test_python_and_torch_are_called(python_api: Built) -> None:
    assert action_counts(python_api.result) == (1 + BINDING, 0, 0)
    python = python_for([parse(CPU)], Releases(), Output())
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    command = [python, "-c", _CALL, str(python_api.build)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr


def test_registration_includes_pythons_headers_for_who_uses_them(python_api: Built, base: Path) -> None:
    """As upstream's does."""
    project = copy_project(python_api.project, base / "through_registration")
    binding = project / "torch-ext" / "binding.cpp"
    text = binding.read_text()
    assert text.startswith("#include <Python.h>\n")
    binding.write_text(text.removeprefix("#include <Python.h>\n"))
    python_api.driver.build(project, CPU)


def test_the_full_api_is_out_of_sight(python_api: Built, base: Path) -> None:
    project = copy_project(python_api.project, base / "full_api")
    source = project / "csrc" / "scale.cpp"
    source.write_text("#include <Python.h>\nPy_ssize_t size(PyObject* list) { return PyList_GET_SIZE(list); }\n")
    wrong = python_api.driver.run("build", project, "--variant", CPU, code=5)
    assert "undeclared identifier 'PyList_GET_SIZE'" in wrong.stderr


def test_a_function_outside_of_the_limited_api_is_named(python_api: Built, base: Path) -> None:
    project = copy_project(python_api.project, base / "declared")
    source = project / "csrc" / "scale.cpp"
    called = 'extern "C" const char* PyUnicode_AsUTF8(PyObject*);\nPyObject* text = nullptr;\n'
    called += "const char* volatile kept = text ? PyUnicode_AsUTF8(text) : nullptr;\n"
    source.write_text(source.read_text() + called)
    wrong = python_api.driver.run("build", project, "--variant", CPU, code=5)
    assert "python-abi: PyUnicode_AsUTF8: not in Python's stable ABI" in wrong.stderr


@pytest.mark.slow
def test_cuda_sources_may_include_it_too(python_api: Built) -> None:
    result = python_api.driver.build(python_api.project, CU130)
    assert action_counts(result) == (torch_actions(1) + BINDING, 0, 0)
