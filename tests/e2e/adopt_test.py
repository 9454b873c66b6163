"""`driver adopt`: the kernel of a setup.py project is built, loads in the client, and answers as the module does."""

from __future__ import annotations

import io
import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, PROJECTS, copy_project
from elftools.elf.elffile import ELFFile
from kernels._rust import Build  # type: ignore[import-untyped]
from setup_projects import write_project

from py_driver import __main__
from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_OF_CLIENT = """
import pathlib, runpy, sys
from kernels import get_local_kernel
kernel = get_local_kernel(pathlib.Path(sys.argv[1]))
assert kernel.__name__ != "scaled_ops"
sys.modules["scaled_ops"] = kernel
runpy.run_path(sys.argv[2], run_name="__main__")
"""


def _answers(*command: str, path: str = "") -> list[object]:
    """What tests/test_scaled.py prints."""
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path})
    python = python_for([parse(CPU)], Releases(), Output())
    done = subprocess.run([python, *command], capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_kernel_of_a_setup_py_answers_as_its_module(clone: Driver, base: Path) -> None:
    project, kernel = copy_project(PROJECTS / "adopted", base / "adopted"), base / "adopted-kernel"
    result = json.loads(clone.run("adopt", project, "--json").stdout)
    assert result["directory"] == str(kernel)
    assert not any(loss["missing"] for loss in result["losses"])
    Build.open(kernel)
    clone.build(project, CPU)
    clone.build(kernel, CPU)
    expected = _answers(str(project / "tests" / "test_scaled.py"), path=str(project / "build" / CPU))
    moved = kernel / "tests" / "test_scaled.py"
    assert _answers("-c", _OF_CLIENT, str(kernel / "build"), str(moved)) == expected


def _device_code(library: Path) -> bytes:
    section = ELFFile(io.BytesIO(library.read_bytes())).get_section_by_name(".nv_fatbin")
    assert section is not None
    return bytes(section.data())


@pytest.mark.slow
def test_device_code_is_that_of_the_module(clone: Driver, base: Path) -> None:
    project, kernel = copy_project(PROJECTS / "adopted", base / "device"), base / "device-kernel"
    clone.run("adopt", project)
    for directory in (project, kernel):
        clone.build(directory, CU130)
    [built] = (kernel / "build" / CU130).glob("*.so")
    assert _device_code(built) == _device_code(project / "build" / CU130 / "scaled" / "lib_C.so")


CLASS = """
    #include <torch/extension.h>

    struct Own { int f() { return 1; } };
    int64_t g(int64_t x) { return x; }

    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
      pybind11::class_<Own>(m, "Own").def("f", &Own::f);
      m.def("g", &g);
    }
"""


def test_what_is_lost_has_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, kernel = write_project(tmp_path / "thing", files={"a.cpp": CLASS}), tmp_path / "kernel"
    assert __main__.main(["adopt", str(project), f"--output={kernel}", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    [missing] = [loss for loss in result["losses"] if loss["missing"]]
    assert (missing["file"], missing["line"]) == ("a.cpp", 7)
    assert "pybind11::class_<Own>" in missing["reason"]
    assert result["ops"] == ["g(int x) -> int"]
    assert "def g(arg0" not in (kernel / "torch-ext" / "thing" / "thing_cuda.py").read_text()
    assert __main__.main(["check", str(kernel)]) == 0


def test_files_of_the_user_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = write_project(tmp_path / "thing")
    before = {path: path.read_bytes() for path in project.iterdir()}
    (tmp_path / "thing-kernel").mkdir()
    (tmp_path / "thing-kernel" / "notes.txt").write_text("mine")
    for words in ([], [f"--output={project}"], [f"--output={project / 'setup.py'}"]):
        assert __main__.main(["adopt", str(project), *words]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert __main__.main(["adopt", str(project), "--force"]) == 0
    assert (tmp_path / "thing-kernel" / "notes.txt").read_text() == "mine"
    assert {path: path.read_bytes() for path in project.iterdir()} == before
    assert __main__.main(["adopt", str(tmp_path / "thing-kernel"), f"--output={tmp_path / 'again'}"]) == 2
    assert "it is the project of a kernel already" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
