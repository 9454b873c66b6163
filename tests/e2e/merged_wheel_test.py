"""Several variants of a project with a setup.py in one wheel: its modules become what fits the installed torch."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.e2e

CPU = "torch213-cxx11-cpu-x86_64-linux"
LATER = "torch215-cxx11-cpu-x86_64-linux"
GPU = "torch215-cxx11-cu130-x86_64-linux"
SETUP = """from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="merged",
    version="1.0",
    packages=["merged"],
    package_data={"merged": ["*.pyi"]},
    install_requires=["torch>=2.1"],
    ext_modules=[
        CppExtension("merged._C", ["ops.cpp"]),
        Extension("merged_plain", ["plain.c"], py_limited_api=True, define_macros=[("Py_LIMITED_API", "0x03090000")]),
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""
PLAIN = """#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* answer(PyObject* self, PyObject* args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, "The answer."}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "merged_plain", "plain", -1, methods};
PyMODINIT_FUNC PyInit_merged_plain(void) { return PyModule_Create(&definition); }
"""
OPS = """#include <torch/extension.h>
#include <torch/version.h>

int release() { return TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR; }
at::Tensor twice(const at::Tensor& input) { return input * 2; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "ops";
  m.def("release", &release);
  m.def("twice", &twice);
}
"""
FILES = {
    "setup.py": SETUP,
    "plain.c": PLAIN,
    "ops.cpp": OPS,
    "merged/__init__.py": "from . import _C\n",
    "merged/_C.pyi": "def release() -> int: ...\n",
}
USE = """
import importlib, json, pickle, sys
import merged_plain
import merged
import torch
from merged import _C

assert merged._C is _C is sys.modules["merged._C"] and merged_plain is sys.modules["merged_plain"]
for module, end in ((_C, ".variants/@VARIANT@/_C.py"), (merged_plain, ".variants/@VARIANT@/merged_plain.abi3.so")):
    for _ in range(2):
        assert module.__file__.endswith(end) and module.__spec__.origin == module.__file__, module.__file__
        assert module.__spec__.name == module.__name__ and module.__loader__ is module.__spec__.loader
        assert not [word for word in dir(module) if "rules_torch_kernels" in word or "chooser" in word], dir(module)
        assert importlib.reload(module) is module is sys.modules[module.__name__]
assert "_rules_torch_kernels" not in sys.modules
assert _C.__doc__ == "ops" and merged_plain.__doc__ == "plain" and merged_plain.answer() == 42
assert pickle.loads(pickle.dumps(_C.twice)) is _C.twice and pickle.loads(pickle.dumps(merged_plain.answer))() == 42
assert _C.twice(torch.ones(2)).tolist() == [2, 2]
print(json.dumps([_C.release(), torch.__version__]))
"""


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def write(name: str, **changed: str) -> Path:
        directory = tmp_path_factory.mktemp("merged_wheel") / name
        for path, text in {**FILES, **changed}.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return directory

    return write


@pytest.fixture(scope="module")
def wheel(write: Callable[..., Path]) -> Path:
    out = write("project") / "dist"
    words = ["wheel", str(out.parent), "--merge", f"--variant={LATER}", f"--variant={CPU}", f"--out={out}"]
    assert __main__.main(words) == 0
    [path] = out.iterdir()
    return path


def use(wheel: Path, site: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Import an unpacked wheel beside torch 2.13 without a GPU."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"})
    return subprocess.run([python, "-c", program], env=env, cwd="/", capture_output=True, text=True, check=False)


def test_a_wheel_has_all_variants_and_says_so(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wheel.name == "merged-1.0-cp39-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read("merged-1.0.dist-info/METADATA").decode()
        statement = json.loads(archive.read("merged-1.0.dist-info/rules_torch_kernels.intoto.json"))
    for variant in (CPU, LATER):
        libraries = {f"merged/_C.variants/{variant}/lib_C.so", f"merged_plain.variants/{variant}/merged_plain.abi3.so"}
        assert libraries <= names
    assert {"merged/_C.py", "merged/_C.pyi", "merged_plain.py"} <= names
    [required] = re.findall("Requires-Dist: torch(.*)", metadata)
    assert {*required.split(",")} == {">=2.13", "<2.16", "!=2.14.*"}
    variants = statement["predicate"]["buildDefinition"]["externalParameters"]["variants"]
    assert sorted(variant["torch"] for variant in variants) == ["2.13", "2.15"]
    assert __main__.main(["abi-check", str(wheel)]) == 0
    capsys.readouterr()


def test_modules_are_those_of_the_installed_torch(wheel: Path, tmp_path: Path) -> None:
    done = use(wheel, tmp_path, USE.replace("@VARIANT@", CPU))
    assert done.returncode == 0, done.stderr
    release, torch = json.loads(done.stdout)
    assert (release, torch[:5]) == (213, "2.13.")


def test_without_a_variant_that_fits_the_import_names_all(write: Callable[..., Path], tmp_path: Path) -> None:
    project = write("others")
    words = ["wheel", str(project), "--merge", f"--variant={LATER}", f"--variant={GPU}", f"--out={tmp_path}"]
    assert __main__.main(words) == 0
    [wheel] = tmp_path.iterdir()
    done = use(wheel, tmp_path / "site", "import merged")
    assert done.returncode == 1
    assert "this wheel of merged._C has no variant for torch 2.13." in done.stderr
    assert f"{LATER} is for torch 2.15" in done.stderr
    assert f"{GPU} is for torch 2.15" in done.stderr


@pytest.mark.slow
def test_a_wheel_of_several_variants_is_what_its_sources_make(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["verify", str(wheel), f"--source={wheel.parents[1]}", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["variants"]
    assert found == {"variant": "2 variants", "place": str(wheel), "differences": [], "report": ""}


def test_a_project_that_finds_its_library_is_refused(
    write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init = 'import importlib.machinery\nimport torch\n\nspec = importlib.machinery.PathFinder().find_spec("_C", [])\n'
    project = write("by_path", **{"merged/__init__.py": f"{init}torch.ops.load_library(spec.origin)\n"})
    words = ["wheel", str(project), "--merge", f"--variant={LATER}", f"--variant={CPU}", f"--out={tmp_path}"]
    assert __main__.main(words) == 2
    told = capsys.readouterr().err
    assert "several variants cannot be in one wheel" in told
    assert "merged/__init__.py:" in told
    assert not list(Path(tmp_path).glob("*.whl"))
