"""The objects of a setup.py's module are linked in setuptools' order, whichever targets compile them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

CPU = "torch213-cxx11-cpu-x86_64-linux"
PLAIN = """
#include "order.h"
static const int added = (order() += LETTER, 0);
__attribute__((weak)) const char* weak() { return LETTER; }
"""
FILES = {
    "setup.py": """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
module = CppExtension("ordered", ["c.cpp", "b.cpp", "a.cpp"])
setup(name="ordered", version="1.0", ext_modules=[module], cmdclass={"build_ext": BuildExtension})
""",
    "order.h": """
#pragma once
#include <string>
inline std::string& order() { static std::string text; return text; }
const char* weak();
""",
    "a.cpp": PLAIN.replace("LETTER", '"a"').replace("weak()", "other()"),
    "b.cpp": f"""
#define Py_LIMITED_API 0x03090000
#include <Python.h>
{PLAIN.replace("LETTER", '"b"')}
static PyObject* found(PyObject*, PyObject*) {{ return PyUnicode_FromString((order() + weak()).c_str()); }}
static PyMethodDef methods[] = {{{{"found", found, METH_NOARGS, ""}}, {{NULL, NULL, 0, NULL}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "ordered", "", -1, methods, NULL, NULL, NULL, NULL}};
PyMODINIT_FUNC PyInit_ordered(void) {{ return PyModule_Create(&module); }}
""",
    "c.cpp": PLAIN.replace("LETTER", '"c"'),
}
"""Sources of two targets: one of them includes Python.h."""


def test_static_initialization_and_weak_definitions_are_as_with_setuptools(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert __main__.main(["build", str(tmp_path), f"--variant={CPU}"]) == 0
    command = [python_for([parse(CPU)], Releases(), Output()), "-c", "import torch, ordered; print(ordered.found())"]
    environment = curated(extra={"PYTHONPATH": str(tmp_path / "build" / CPU)})
    assert subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout == "abcb\n"
