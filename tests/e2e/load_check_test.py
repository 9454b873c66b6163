"""`driver build` and `wheel` load what they have built where a torch is there, and say what they could not load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130
from tree import write_files

from py_driver import __main__
from py_driver.building.installed_torch import python_for
from py_driver.errors import ExitCode
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_MANIFEST = """[general]
name = "loads"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]

[torch]
src = ["torch-ext/binding.cpp"]

[kernel.cpu]
backend = "cpu"
depends = []
src = ["half.cpp"]

[kernel.gpu]
backend = "cuda"
depends = []
src = ["half.cpp"]
"""
_BINDING = """#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cstdlib>

#include "registration.h"

double half(double x);
HEAD
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("half(float x) -> float", &half);
  BODY
}
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""
_PACKAGE = "from ._ops import ops\n\nhalf = ops.half\n"


@pytest.fixture(scope="module")
def project(base: Path) -> Path:
    python_for([parse(CPU)], Releases(), Output())  # an environment with torch is there
    files = {"build.toml": _MANIFEST, "half.cpp": "double half(double x) { return x / 2; }\n"}
    return write_files(base / "loads", files)


def _write(project: Path, body: str = "", head: str = "", package: str = _PACKAGE) -> None:
    text = _BINDING.replace("BODY", body).replace("HEAD", head)
    write_files(project, {"torch-ext/binding.cpp": text, "torch-ext/loads/__init__.py": package})


def test_a_variant_is_loaded_once_and_another_is_told(clone: Driver, project: Path) -> None:
    _write(project)
    first = clone.run("build", project, "--variant", CPU, "--variant", CU130)
    assert f"loading {CPU} in torch 2.13 (cpu)" in first.stderr
    assert "1 variant not loaded here for lack of a matching torch" in first.stderr
    assert f"loading {CPU}" not in clone.run("build", project, "--variant", CPU).stderr
    _write(project, package=f"import no_such_module\n{_PACKAGE}")
    lacks = clone.run("build", project, "--variant", CPU)
    assert "its Python package needs `no_such_module`, which is not there" in lacks.stderr


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"body": 'ops.def("g(" WORD " x) -> ()");', "head": '#define WORD "double"'}, "Use `float`"),
        ({"body": 'ops.def("g(int x) -> int", &half);'}, "reason: Type mismatch in argument 1: int vs float."),
        ({"head": "struct Init { Init() { std::abort(); } } init;"}, "the process died with SIGABRT"),
        ({"package": f"{_PACKAGE}from ._ops import nothing\n"}, "cannot import name 'nothing'"),
        ({"package": f"{_PACKAGE}from .gone import x\n"}, "No module named"),
        ({"package": f"{_PACKAGE}ops.gone\n"}, "object has no attribute 'gone' (__init__.py, line "),
        ({"package": "import loads.x\n"}, "the package imports itself as `loads`"),
    ],
)
def test_what_cannot_be_loaded_is_an_error(clone: Driver, project: Path, texts: dict[str, str], said: str) -> None:
    _write(project, **texts)
    wrong = clone.run("build", project, "--variant", CPU, code=6)
    assert f"error[E501]: {CPU} cannot be loaded in torch 2.13: " in wrong.stderr
    assert said in wrong.stderr


_SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

modules = [CppExtension(f"thrice.{name}", [f"{name}.cpp"]) for name in ("_first", "_second", "_table")]
setup(name="thrice", version="1", packages=["thrice"], ext_modules=modules, cmdclass={"build_ext": BuildExtension})
"""
_OPS = """#include <torch/library.h>

static double thrice(double x) { return 3 * x; }
TORCH_LIBRARY(thrice, ops) { ops.def("NAME(float x) -> float", &thrice); }
"""
_TABLE = """#include <stdexcept>

struct Table {
  Table() { THROW }
};
static Table table;
"""


@pytest.mark.slow
def test_each_module_of_a_setup_py_is_loaded_by_itself(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python_for([parse(CPU)], Releases(), Output())
    package = "raise RuntimeError('the package needs a GPU')\n"
    # Two modules register the same namespace; both in one process would be an error. No earlier run has loaded them.
    text = _OPS.replace("NAME", f"op{time.time_ns()}")
    files = {f"{name}.cpp": text for name in ("_first", "_second")}
    broken = _TABLE.replace("THROW", 'throw std::runtime_error("no such table");')
    project = write_files(
        base / "thrice", {"setup.py": _SETUP, "thrice/__init__.py": package, "_table.cpp": broken, **files}
    )
    out = base / "thrice-out"
    words = [str(project), f"--variant={CPU}"]
    wrong = (
        f"error[E501]: {CPU}-thrice._table cannot be loaded in torch 2.13: the process died with SIGABRT; no such table"
    )
    assert __main__.main(["build", *words]) == ExitCode.LOAD
    said = capsys.readouterr().err
    for name in ("_first", "_second"):
        assert f"loading {CPU}-thrice.{name} in torch 2.13 (cpu): done" in said
    assert wrong in said
    assert f"help: the build stays in {project / 'build'}; do not publish it" in said
    assert (project / "build" / CPU / "thrice" / "__init__.py").read_text() == package
    assert __main__.main(["wheel", *words, f"--out={out}"]) == ExitCode.LOAD
    said = capsys.readouterr().err
    assert wrong in said
    assert "help: no wheel was written" in said
    assert not out.exists()
    write_files(project, {"_table.cpp": text})
    assert __main__.main(["wheel", *words, f"--out={out}"]) == ExitCode.OK
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines() if line.startswith("loading ")] == [
        f"{CPU}-thrice._table"
    ] * 2
    assert len([*out.glob("thrice-1+cpu.torch213-*.whl")]) == 1
    assert __main__.main(["build", *words]) == ExitCode.OK
    assert "loading " not in capsys.readouterr().err
