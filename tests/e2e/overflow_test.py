"""Integers and pointers that overflow in a setup.py's C and C++ wrap around, as with the flags of Python."""

from __future__ import annotations

import json
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
SETUP = """
from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

def module(kind, name, source, *flags):
    macros = [("NAME", f'"{name}"'), ("INIT", f"PyInit_{name}")]
    return kind(name, [source], define_macros=macros, extra_compile_args=list(flags))

modules = [
    module(CppExtension, "by_clang", "overflow.cpp"),
    module(CppExtension, "by_gcc", "overflow.cpp", "-fopenmp"),
    module(Extension, "in_c", "overflow.c", "-std=gnu11"),
    module(CppExtension, "undefined", "overflow.cpp", "-fno-wrapv", "-fstrict-overflow"),
]
setup(name="overflow", version="1.0", ext_modules=modules, cmdclass={"build_ext": BuildExtension})
"""
SOURCE = """
#define Py_LIMITED_API 0x03090000
#include <Python.h>

static PyObject* wraps(PyObject* self, PyObject* args) {
  int largest;
  unsigned long long place;
  if (!PyArg_ParseTuple(args, "iK", &largest, &place)) return NULL;
  const char* high = (const char*)(size_t)place;
  return Py_BuildValue("[ii]", largest + 1 < largest, high + ((size_t)1 << 61) < high);
}
static PyMethodDef methods[] = {{"wraps", wraps, METH_VARARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, NAME, "", -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC INIT(void) { return PyModule_Create(&module); }
"""
CALL = """
import json, torch, by_clang, by_gcc, in_c, undefined
modules = by_clang, by_gcc, in_c, undefined
print(json.dumps([module.wraps(2**31 - 1, 0xF000_0000_0000_0000) for module in modules]))
"""


def test_what_overflows_wraps_around_unless_the_flags_say_otherwise(tmp_path: Path) -> None:
    for name, text in (("setup.py", SETUP), ("overflow.cpp", SOURCE), ("overflow.c", SOURCE)):
        (tmp_path / name).write_text(text)
    assert __main__.main(["build", str(tmp_path), f"--variant={CPU}"]) == 0
    command = [python_for([parse(CPU)], Releases(), Output()), "-c", CALL]
    environment = curated(extra={"PYTHONPATH": str(tmp_path / "build" / CPU)})
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    assert json.loads(said) == [[1, 1], [1, 1], [1, 1], [0, 0]]
