"""Bindings without Python: they behave as those of torch's own cpp_extension; what needs a Python is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, PROJECTS
from elftools.elf.elffile import ELFFile

from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

_PROJECT = PROJECTS / "binding"
_MODULE = """module(name = "user")
bazel_dep(name = "rules_torch_kernels")
local_path_override(module_name = "rules_torch_kernels", path = "{rules}")
"""
_BUILD = """load("@rules_torch_kernels//rules:defs.bzl", "kernel_id", "kernel_objects", "kernel_variant")

kernel_id(name = "id", srcs = ["{source}.cpp"], backend = "cpu", module = "binding")

kernel_objects(
    name = "objects",
    srcs = ["{source}.cpp"],
    backend = "cpu",
    cxx_flags = ["-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"],
    depends = ["torch", "pybind"],
)

kernel_variant(
    name = "{variant}",
    backend = "cpu",
    binding = True,
    cxx_abi = "cxx11",
    id = ":id",
    metadata = "{{}}",
    module = "{module}",
    objects = [":objects"],
    torch = "2.13",
)
"""
_SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="{name}",
    ext_modules=[CppExtension("{name}", ["{source}.cpp"])],
    cmdclass={{"build_ext": BuildExtension.with_options(use_ninja=False)}},
)
"""
_OF_PYBIND_ALONE = {"wide.int_ref([x, x])", "wide.int_ref((x, None))"}
"""Where pybind11 with torch fails with an internal error in place of a TypeError."""

_OF_PYBIND_CLASSES = {"changed(shapes.Params, version='a')"}
"""Where the signature of a setter of a static attribute has the class as its first argument."""

_COMPILED = """
import torch, wide
x = torch.ones(4)

def calls(x):
    y = torch.zeros_like(x)
    wide.add_(x * 2, y)
    return y + wide.several(x, scale=3.0)[1] + wide.i32(3) + wide.scaled(x, 2), wide.calls()

compiled = torch.compile(calls, backend="aot_eager")
first, one = compiled(x)
second, two = compiled(x)
torch.testing.assert_close(first, torch.full((4,), 2 + 1 + 3.0 + 3 + 2))
torch.testing.assert_close(first, second)
assert two == one + 1, "a call was taken for a constant"
"""
_AGAIN = """
import importlib, shutil, sys, threading, torch
first, other = sys.argv[1:]
sys.path.insert(0, first)
import wide
assert importlib.reload(wide) is wide
assert wide.i32(3) == 3
shutil.copytree(first, other)
del sys.modules["wide"]
sys.path[0] = other
import wide as copied
assert copied.__file__.startswith(other)
assert copied.i32(4) == 4

def work():
    for number in range(2000):
        assert copied.i32(number) == number
        copied.released(torch.ones(2))

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with torch, and with what a setup.py for it needs."""
    torch = f"torch=={Releases().lock.torch_release('2.13')}"
    return ensure_venv("binding", [torch, "numpy", "setuptools"], Output())


def _workspace(clone: Driver, place: Path, *, source: str = "wide", name: str = "wide", module: str = "wide") -> Path:
    """A Bazel module of a user's, with one binding."""
    place.mkdir(parents=True)
    for setting in (".bazelrc", ".bazelversion"):
        shutil.copy(clone.root / setting, place / setting)
    shutil.copy(_PROJECT / f"{source}.cpp", place)
    (place / "MODULE.bazel").write_text(_MODULE.format(rules=clone.root))
    (place / "BUILD.bazel").write_text(_BUILD.format(source=source, name=name, variant=CPU, module=module))
    return place


def _ours(clone: Driver, base: Path, source: str, name: str) -> Path:
    """The directory of the module that the rules make of a source."""
    place = _workspace(clone, base / name, source=source, name=name, module=name)
    clone.run("bazel", "--", "build", f"//:{CPU}", cwd=place)
    [path] = clone.run("bazel", "--", "cquery", "--output=files", f"//:{CPU}", cwd=place).stdout.split()
    execution_root = clone.run("bazel", "--", "info", "execution_root", cwd=place).stdout.strip()
    return shutil.copytree(Path(execution_root, path), base / f"{name}-ours")


def _theirs(python: Path, base: Path, source: str, name: str) -> Path:
    """The directory of the module that torch's own cpp_extension makes of a source."""
    place = base / f"{name}-theirs"
    place.mkdir()
    shutil.copy(_PROJECT / f"{source}.cpp", place)
    (place / "setup.py").write_text(_SETUP.format(name=name, source=source))
    _run(python, "setup.py", "-q", "build_ext", "--inplace", cwd=place)
    return place


@pytest.fixture(scope="module")
def ours(clone: Driver, base: Path) -> Path:
    """The module of functions, as the rules make it."""
    return _ours(clone, base, "wide", "wide")


@pytest.fixture(scope="module")
def theirs(python: Path, base: Path) -> Path:
    """The module of functions, as torch makes it."""
    return _theirs(python, base, "wide", "wide")


@pytest.fixture(scope="module")
def shapes(clone: Driver, base: Path) -> Path:
    """The module of classes, as the rules make it."""
    return _ours(clone, base, "classes", "shapes")


def _run(python: Path, *arguments: str | Path, cwd: Path | str = "/", code: int = 0, **environ: str) -> str:
    env = curated(extra={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", **environ})
    command = [str(python), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout if code == 0 else done.stderr


def _answers(python: Path, module: Path, probe: str = "probe.py") -> dict[str, str]:
    text = _run(python, _PROJECT / probe, PYTHONPATH=str(module))
    answers: dict[str, str] = json.loads(re.sub("0x[0-9a-f]+", "0x", text))
    return answers


@pytest.mark.slow
def test_module_behaves_as_that_of_pybind11(python: Path, ours: Path, theirs: Path) -> None:
    """Results, defaults, names, docs, None, overloads, wrong types and counts, overflow, autograd, transformations."""
    expected, found = _answers(python, theirs), _answers(python, ours)
    assert len(expected) > 2000
    different = {key: (expected[key], found[key]) for key in expected if expected[key] != found[key]}
    assert set(different) == _OF_PYBIND_ALONE, different


@pytest.mark.slow
def test_classes_behave_as_those_of_pybind11(python: Path, shapes: Path, base: Path) -> None:
    """Attributes, methods, operators, enums, holders, derived classes, wrong arguments, identity, lifetime."""
    expected = _answers(python, _theirs(python, base, "classes", "shapes"), "classes_probe.py")
    found = _answers(python, shapes, "classes_probe.py")
    assert len(expected) > 1600
    different = {key: (expected[key], found[key]) for key in expected if expected[key] != found[key]}
    assert set(different) == _OF_PYBIND_CLASSES, different


@pytest.mark.slow
def test_wrapped_functions_fail_and_warn_as_those_of_torch(clone: Driver, python: Path, base: Path) -> None:
    """Exceptions of C++, registered ones, warnings in threads and at which line, with each filter of warnings."""
    expected = _answers(python, _theirs(python, base, "wrapped", "wrapped"), "wrapped_probe.py")
    found = _answers(python, _ours(clone, base, "wrapped", "wrapped"), "wrapped_probe.py")
    assert len(expected) > 400
    assert found == expected


@pytest.mark.slow
def test_objects_end_in_threads_reloads_and_compiled_code(python: Path, shapes: Path, tmp_path: Path) -> None:
    _run(python, _PROJECT / "classes_lives.py", shapes, tmp_path / "other")


@pytest.mark.slow
def test_compiled_code_calls_the_functions_each_time(python: Path, ours: Path) -> None:
    _run(python, "-c", _COMPILED, PYTHONPATH=str(ours))


def test_module_is_imported_again_and_from_another_place(python: Path, ours: Path, tmp_path: Path) -> None:
    _run(python, "-c", _AGAIN, ours, tmp_path / "other")


@pytest.mark.parametrize(
    "case",
    [
        ('"torch": "2.13"', '"torch": "2.12"', r"wide is built for torch 2\.12, and torch 2\.13\.\S+ is installed"),
        (
            '"backend": "cpu"',
            '"backend": "rocm72"',
            r"wide is built for ROCm 7, and the installed torch \S+ is without ROCm",
        ),
        ('"libwide.so"', '"libnone.so"', r"wide cannot be loaded: \S+/libnone\.so: cannot open .*"),
    ],
)
def test_another_torch_is_refused_in_a_sentence(
    python: Path, ours: Path, tmp_path: Path, case: tuple[str, str, str]
) -> None:
    built, other, sentence = case
    place = shutil.copytree(ours, tmp_path / "changed")
    code = place / "wide.py"
    code.chmod(0o644)
    assert code.read_text().count(built) == 1
    code.write_text(code.read_text().replace(built, other))
    said = _run(python, "-c", "import wide", code=1, PYTHONPATH=str(place))
    assert re.fullmatch(f"ImportError: {sentence}", said.splitlines()[-1])


def test_library_has_no_symbol_of_python(ours: Path) -> None:
    with (ours / "libwide.so").open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        symbols = list(table.iter_symbols())[1:]
    assert [symbol.name for symbol in symbols if symbol.name.startswith(("Py", "_Py"))] == []
    defined = [symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"]
    assert defined == ["rules_torch_kernels_binding_wide"]


@pytest.mark.slow
def test_what_needs_a_python_is_an_error_at_its_line(clone: Driver, base: Path) -> None:
    place = _workspace(clone, base / "unsupported", source="unsupported")
    said = clone.run("bazel", "--", "build", f"//:{CPU}", cwd=place, code=1).stderr
    lines = (place / "unsupported.cpp").read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if line.startswith("  m.def"))
    for number in range(first, len(lines)):
        assert f"unsupported.cpp:{number}:" in said, lines[number - 1]
    for problem in (
        "argument 2 of the function in `def` is a Python object",
        "argument 2 of the function in `def` is a pointer",
        "argument 1 of the function in `def` has a type without a conversion",
        "the result of the function in `def` is a Python object",
        "a class whose methods Python overrides (a trampoline) in `py::class_`",
        "this holder in `py::class_`",
        "this further argument of `py::class_`",
        "py::implicitly_convertible",
    ):
        assert f"not supported without Python: {problem}" in said
    assert "`--binding pybind` builds the module with pybind11 itself" in said


@pytest.mark.slow
def test_function_of_a_class_without_py_class_does_not_link(clone: Driver, base: Path) -> None:
    place = _workspace(clone, base / "unbound", source="unbound")
    said = clone.run("bazel", "--", "build", f"//:{CPU}", cwd=place, code=1).stderr
    assert "without_py_class_for(rules_torch_kernels::binding::ClassOf<Camera>*)" in said


@pytest.mark.slow
def test_module_of_another_name_than_that_of_the_source_is_refused(clone: Driver, base: Path) -> None:
    place = _workspace(clone, base / "renamed", module="pkg.other")
    said = clone.run("bazel", "--", "build", f"//:{CPU}", cwd=place, code=1).stderr
    assert "init-function: rules_torch_kernels_binding_other: not exported" in said
