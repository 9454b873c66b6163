"""Modules that use Python objects: bound by pybind11 for each Python, with kernels that are compiled once for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from py_driver import __main__
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.e2e

CPU = "torch213-cxx11-cpu-x86_64-linux"
SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="objects",
    version="1.0",
    packages=["objects"],
    ext_modules=[CppExtension("objects._C", ["csrc/ops.cpp", "csrc/sum.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
PLAIN = """#include <functional>

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

int total(int first, int second);

struct Counter {
  explicit Counter(int start) : count(start) {}
  int next() { return count++; }
  int count;
};

static py::dict summary(int first, int second, py::kwargs more) {
  py::dict found;
  found["total"] = total(first, second);
  found["more"] = more;
  return found;
}

static int apply(int value, const std::function<int(int)>& function) { return function(value); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "objects";
  m.def("summary", &summary);
  m.def("apply", &apply);
  py::class_<Counter>(m, "Counter")
      .def(py::init<int>())
      .def("next", &Counter::next)
      .def_readwrite("count", &Counter::count);
}
"""
SUM = "int total(int first, int second) { return first + second; }\n"
CALLS = """
import torch
from objects import _C
assert _C.__doc__ == "objects"
assert _C.summary(1, 2, name="x") == {"total": 3, "more": {"name": "x"}}
assert _C.apply(3, lambda value: 2 * value) == 6
counter = _C.Counter(4)
assert (counter.next(), counter.count) == (4, 5)
counter.count = 9
assert counter.next() == 9
for value, problem in ((3, ZeroDivisionError), ("x", TypeError)):
    try:
        _C.apply(value, lambda value: 1 // 0)
    except problem:
        continue
    raise AssertionError(problem)
"""
TENSORS = """#include <torch/extension.h>
#include <torch/csrc/autograd/python_variable.h>

at::Tensor total(const at::Tensor& x);

static py::dict summary(const at::Tensor& x, const std::string& name) {
  py::dict found;
  found[py::str(name)] = total(x);
  return found;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("summary", &summary, py::arg("x"), py::arg("name") = "x");
  m.def("next", [](const at::Tensor& x) { return py::reinterpret_steal<py::object>(THPVariable_Wrap(x + 1)); });
  m.def("device", [](const at::Device& device) { return device; });
}
"""
TENSOR_SUM = "#include <torch/all.h>\n\nat::Tensor total(const at::Tensor& x) { return x.sum(); }\n"
TENSOR_CALLS = """
import torch
from objects import _C
x = torch.ones(3, requires_grad=True)
_C.summary(x)["x"].backward()
assert x.grad.tolist() == [1, 1, 1]
assert _C.next(torch.zeros(2)).tolist() == [1, 1]
assert _C.device(torch.device("cpu")) == torch.device("cpu")
"""


def project(directory: Path, files: Mapping[str, str]) -> Path:
    """A project whose sources no cache has."""
    fresh = f"\nstatic const long fresh = {time.time_ns()};\n"
    texts = {"setup.py": SETUP, "objects/__init__.py": "", **{name: text + fresh for name, text in files.items()}}
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"csrc/ops.cpp": PLAIN, "csrc/sum.cpp": SUM}
    return project(tmp_path_factory.mktemp("pybind") / "objects", files)


def driver(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> dict[str, Any]:
    """What a command printed as JSON."""
    assert __main__.main([*map(str, words), "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def actions(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """How many actions ran for each variant, and how many others had too."""
    return {
        variant["variant"].removeprefix(f"{CPU}-"): (variant["actions"]["run"], variant["actions"]["shared"])
        for variant in answer["variants"]
    }


def call(directory: Path, program: str) -> None:
    """Run a program with Python 3.11, torch and a built project."""
    torch = f"torch=={Releases().lock.torch_release('2.13')}"
    python = ensure_venv("binding", [torch, "numpy", "setuptools"], Output())
    environ = {"PYTHONPATH": str(directory), "PATH": os.environ["PATH"]}
    subprocess.run([python, "-c", program], env=environ, check=True)


def symbols(library: Path) -> tuple[set[str], set[str]]:
    """What a library takes from others, and which libraries it needs."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        names, dynamic = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".dynamic")
        assert isinstance(names, SymbolTableSection)
        assert isinstance(dynamic, DynamicSection)
        taken = {
            symbol.name
            for symbol in names.iter_symbols()
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        }
        needed = {str(tag.needed) for tag in dynamic.iter_tags("DT_NEEDED")}  # type: ignore[attr-defined]  # set for this tag
    return taken, needed


def test_check_says_which_way_a_module_goes_and_because_of_which_line(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = driver(capsys, "check", plain)
    [note] = answer["notes"]
    assert (Path(note["file"]).name, note["line"]) == ("ops.cpp", PLAIN[: PLAIN.index("py::dict")].count("\n") + 1)
    assert note["message"] == "objects._C is bound by pybind11, once for each Python: `py::dict` needs one"
    modules = answer["modules"].values()
    assert {module["binding"] for module in modules} == {"pybind"}
    assert {module["python"] for module in modules} == {"3.11", "3.13", "3.14", "3.15"}


@pytest.mark.slow
def test_sources_that_see_python_are_compiled_for_each_and_others_once(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = driver(capsys, "build", plain, f"--variant={CPU}", "--python=3.11")
    assert actions(first) == {"cp311": (2, 0)}
    call(plain / "build" / f"{CPU}-cp311", CALLS)
    words = ("--python=3.11", "--python=3.13", "--python=3.14")
    assert actions(driver(capsys, "build", plain, f"--variant={CPU}", *words)) == {
        "cp311": (0, 0),
        "cp313": (1, 1),
        "cp314": (1, 1),
    }
    assert __main__.main(["wheel", str(plain), f"--variant={CPU}", f"--out={tmp_path}"]) == 0
    names = {path.name: path for path in sorted(tmp_path.iterdir())}
    versions = ("311", "313", "314")
    assert list(names) == [f"objects-1.0+cpu.torch213-cp{v}-cp{v}-manylinux_2_28_x86_64.whl" for v in versions]
    for version, wheel in zip(versions, names.values(), strict=True):
        with zipfile.ZipFile(wheel) as archive:
            name = f"objects/_C.cpython-{version}-x86_64-linux-gnu.so"
            library = Path(archive.extract(name, tmp_path / version))
        taken, needed = symbols(library)
        assert "PyDict_New" in taken
        assert "libtorch_python.so" in needed
        assert not any(name.startswith("libpython") for name in needed)
        assert __main__.main(["abi-check", str(wheel)]) == 0


def test_an_installed_python_is_built_for_by_its_path_and_imports_the_module(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    answer = driver(capsys, "build", plain, f"--variant={CPU}", f"--python={sys.executable}")
    [variant] = answer["variants"]
    assert variant["variant"] == f"{CPU}-cp{version}"
    directory = plain / "build" / f"{CPU}-cp{version}"
    library = directory / "objects" / f"_C.cpython-{version}-x86_64-linux-gnu.so"
    taken, needed = symbols(library)
    assert "PyDict_New" in taken
    assert "libtorch_python.so" in needed
    call(directory, CALLS)


@pytest.mark.slow
def test_what_cannot_be_bound_on_torch_names_the_option(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = driver(capsys, "build", plain, f"--variant={CPU}", "--binding=library", code=5)
    assert any("without Python" in problem.get("text", "") for problem in answer["errors"])
    assert answer["errors"][-1]["help"] == "build for each Python: `--binding pybind`"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--python=3.15"], "E008", "torch 2.13 has no wheel for Python 3.15"),
        (["--python=/bin/true"], "E308", "/bin/true does not run as Python: its output is not as expected"),
        (["--python=3.99"], "E008", "Python 3.99 is neither in the lock (3.11, 3.13, 3.14, 3.15) nor on PATH"),
    ],
)
def test_a_python_that_cannot_be(
    plain: Path, words: list[str], code: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["build", str(plain), f"--variant={CPU}", *words]) != 0
    error = capsys.readouterr().err
    assert message in error
    assert code in error


@pytest.mark.slow
def test_tensors_and_objects_of_torch_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = project(tmp_path / "objects", {"csrc/ops.cpp": TENSORS, "csrc/sum.cpp": TENSOR_SUM})
    words = ("--python=3.11", "--python=3.13")
    answer = driver(capsys, "build", directory, f"--variant={CPU}", *words)
    assert actions(answer) == {"cp311": (2, 0), "cp313": (1, 1)}
    call(directory / "build" / f"{CPU}-cp311", TENSOR_CALLS)


@pytest.mark.slow
def test_a_project_with_python_objects_passes_its_own_tests(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tests = plain / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "test_objects.py").write_text(f"def test_objects():\n    exec({CALLS!r}, {{}})\n")
    assert __main__.main(["test", str(plain), "--torch=2.13", "--backend=cpu", "--", "-q"]) == 0
    assert "1 passed" in capfd.readouterr().out
