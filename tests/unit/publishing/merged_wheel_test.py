"""Wheels of several variants: real ones of setuptools, with real libraries in the place of empty ones."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import project, record_of

from py_driver.errors import Code, DriverError
from py_driver.publishing.extension_wheel import ExtensionWheel
from py_driver.publishing.merged_wheel import Recorded, check_merge, make_merged_wheel

_TORCH = """
__version__ = "{version}"
class version: cuda = {cuda!r}; hip = None
class _C: pass
class backends:
    class mps:
        is_available = staticmethod(lambda: False)
class cuda: _lazy_call = staticmethod(lambda call: None)
def compiled_with_cxx11_abi(): return True
"""
"""What the loader asks a torch for; those of this environment are none."""


def extension() -> tuple[str, Path]:
    """An extension of this Python: its name, its library."""
    for name in ("_struct", "_heapq", "_json"):
        spec = importlib.util.find_spec(name)
        if spec and spec.origin and spec.origin.endswith(".so"):
            return name, Path(spec.origin)
    raise AssertionError("no extension is a file of its own")


@pytest.fixture
def wheels(tmp_path: Path) -> list[ExtensionWheel]:
    """Two variants: `demo._C` is a Python file in both, and the second one has a library besides."""
    name, library = extension()
    skeletons = [project(tmp_path / "a", modules=("demo._C",)), project(tmp_path / "b", modules=("demo._C", name))]
    first = record_of(skeletons[0], "demo._C")
    second = replace(record_of(skeletons[1], "demo._C", name), torch="2.15", backend="cpu", arch_list="")
    found = []
    for record, skeleton in ((first, skeletons[0]), (second, skeletons[1])):
        code = tmp_path / f"{record.torch}.py"
        code.write_text(f"torch = {record.torch!r}\n")
        modules = {record.modules[0].file: {"demo/_C.py": code}}
        if len(record.modules) > 1:
            modules[record.modules[1].file] = {f"{name}.so": library}
        found.append(ExtensionWheel(record=record, skeleton=skeleton, modules=modules))
    return found


def answer(wheel: Path, tmp_path: Path, version: str, cuda: str | None, program: str) -> str:
    """What a program prints that imports an unpacked wheel beside something that looks like a torch to the loader."""
    site = tmp_path / f"site-{version}"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "torch.py").write_text(_TORCH.format(version=version, cuda=cuda))
    lines = ["import sys", f"sys.path.insert(0, {str(site)!r})", program]
    done = subprocess.run([sys.executable, "-I", "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def test_modules_of_some_variants_are_missing_with_the_others(wheels: list[ExtensionWheel], tmp_path: Path) -> None:
    name, _ = extension()
    wheel = make_merged_wheel(wheels, tmp_path)
    assert wheel.name == "demo_project-1.0-cp39-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("demo_project-1.0.dist-info/top_level.txt").decode().split() == sorted([name, "demo"])
    program = f"from demo import _C; import {name}; print(_C.torch, {name}.__file__.split('.variants/')[1])"
    program = f"sys.modules.pop({name!r}, None)\n{program}"
    file = f"torch215-cxx11-cpu-x86_64-linux/{name}.so"
    assert answer(wheel, tmp_path, "2.15.0+cpu", None, program) == f"2.15 {file}"
    assert answer(wheel, tmp_path, "2.13.1+cu130", "13.0", "from demo import _C; print(_C.torch)") == "2.13"
    assert answer(wheel, tmp_path, "2.13.1+cu130", "13.0", program) == (
        f"ModuleNotFoundError: No module named '{name}': torch213-cxx11-cu130-x86_64-linux of this wheel has none"
    )


def test_the_same_variants_give_the_same_bytes(wheels: list[ExtensionWheel], tmp_path: Path) -> None:
    first = make_merged_wheel(wheels, tmp_path).read_bytes()
    assert make_merged_wheel(wheels, tmp_path).read_bytes() == first


def test_one_variant_is_the_wheel_of_that_variant(wheels: list[ExtensionWheel], tmp_path: Path) -> None:
    wheel = make_merged_wheel(wheels[:1], tmp_path)
    assert wheel.name == "demo_project-1.0+cu130.torch213-py3-none-manylinux_2_28_x86_64.whl"


def test_a_library_that_nothing_can_import_is_refused(wheels: list[ExtensionWheel], tmp_path: Path) -> None:
    _, library = extension()
    own = wheels[0].record.modules[0].file
    changed = replace(wheels[0], modules={own: {"demo/_C.abi3.so": library}})
    with pytest.raises(DriverError) as caught:
        make_merged_wheel([changed, wheels[1]], tmp_path)
    [problem] = caught.value.diagnostics
    assert problem.code is Code.UNSUPPORTED
    assert "`demo._C` cannot be imported, since no source has PYBIND11_MODULE or PyInit__C" in problem.message


@pytest.mark.parametrize("what", ["file", "version", "cpu", "path", "torch"])
def test_variants_that_cannot_be_in_one_wheel(what: str, tmp_path: Path) -> None:
    skeleton = project(tmp_path / "a")
    record = record_of(skeleton, "demo._C")
    other, second = skeleton, replace(record, torch="2.15")
    if what == "version":
        other = project(tmp_path / "b", version="1.1")
    if what == "file":
        other = project(tmp_path / "b", requires=["torch"])
    if what == "cpu":
        second = replace(second, cpu="aarch64")
    if what == "torch":
        skeleton = other = project(tmp_path / "c", requires=["torch<2.14"])
    if what == "path":
        init = tmp_path / "a" / "project" / "demo" / "__init__.py"
        init.write_text("import torch\ntorch.ops.load_library(__file__ + '/../_C.so')\n")
        from recorded import wheel_of  # noqa: PLC0415

        skeleton = other = wheel_of(tmp_path / "a" / "project")
    with pytest.raises(DriverError) as caught:
        check_merge([Recorded(record, skeleton), Recorded(second, other)])
    [problem] = caught.value.diagnostics
    wanted = {
        "file": "demo_project-1.0.dist-info/METADATA differs",
        "version": "setup.py makes different wheels for torch213-cxx11-cu130-x86_64-linux and torch215-",
        "cpu": "a wheel is for one CPU, and these variants are for aarch64 and x86_64",
        "path": "`torch.ops.load_library` may find a module by its path",
        "torch": "the project requires `torch<2.14`, which torch 2.15 is not",
    }
    assert problem.code is Code.UNSUPPORTED
    assert wanted[what] in problem.message
    assert (problem.span is not None) == (what == "path")
