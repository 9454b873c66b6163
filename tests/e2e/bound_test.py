"""A project with a build.toml that is bound by pybind11: wheels for each Python, and no kernel compiled again."""

from __future__ import annotations

import json
import os
import subprocess
import time
import zipfile
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, copy_project

from py_driver import __main__
from py_driver.building.installed_torch import python_for
from py_driver.errors import ExitCode
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

CU130 = "torch213-cxx11-cu130-x86_64-linux"
CALLS = """
import torch
import bound
from bound._ops import ops

assert bound.scale(torch.ones(3), factor=3).tolist() == [3, 3, 3]
assert bound.sizes({"a": torch.ones(2, 3)}) == {"a": [2, 3]}
assert bound.call(lambda tensor: tensor + 1, torch.ones(1)).tolist() == [2]
assert isinstance(bound.Counter(), ops.Counter)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, with sources that no cache has."""
    directory = copy_project(PROJECTS / "bound", tmp_path_factory.mktemp("pybind") / "bound")
    for name in ("csrc/scale.cpp", "csrc/scale_device.cu", "torch-ext/torch_binding.cpp"):
        path = directory / name
        path.write_text(f"{path.read_text()}\nstatic const long fresh = {time.time_ns()};\n")
    return directory


def wheels(out: Path) -> list[Path]:
    return sorted(out.glob("*.whl"))


def test_a_wheel_for_one_python_is_imported_and_called(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python_for([parse(CPU)], Releases(), Output())  # an environment of this Python with torch is there
    words = [
        "wheel",
        str(project),
        "--binding=pybind",
        "--python=3.11",
        f"--variant={CPU}",
        f"--out={tmp_path / 'out'}",
    ]
    assert __main__.main(words) == 0
    assert f"loading {CPU}-cp311 in torch 2.13" in capsys.readouterr().err
    [wheel] = wheels(tmp_path / "out")
    assert wheel.name == "bound-1.0+torch213.cxx11.cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    python = ensure_venv(
        "binding", [f"torch=={Releases().lock.torch_release('2.13')}", "numpy", "setuptools"], Output()
    )
    environ = {"PYTHONPATH": str(tmp_path / "installed"), "PATH": os.environ["PATH"]}
    subprocess.run([python, "-c", CALLS], env=environ, check=True)
    assert not (project / "build").exists()
    assert __main__.main(["abi-check", str(wheel)]) == 0


@pytest.mark.slow
def test_no_wheel_is_written_of_what_cannot_be_loaded(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = copy_project(project, tmp_path / "bound")
    binding = broken / "torch-ext" / "torch_binding.cpp"
    before = '  m.def("scale"'
    binding.write_text(binding.read_text().replace(before, f'  throw py::value_error("no such table");\n{before}'))
    words = ["--binding=pybind", "--python=3.11,3.13", f"--variant={CPU}", f"--out={tmp_path / 'out'}"]
    assert __main__.main(["wheel", str(broken), *words]) == ExitCode.LOAD
    said = capsys.readouterr().err
    assert f"{CPU}-cp311 cannot be loaded in torch 2.13: ImportError: no such table (_ops.py, line 5)\n" in said
    assert "help: no wheel was written" in said
    assert not (tmp_path / "out").exists()


def test_editors_find_the_headers_of_the_python(project: Path) -> None:
    assert __main__.main(["ide", str(project), "--binding=pybind", "--python=3.11", f"--variant={CPU}"]) == 0
    listed = json.loads((project / "compile_commands.json").read_text())
    [entry] = [entry for entry in listed if entry["file"] == "torch-ext/torch_binding.cpp"]
    assert any(word.endswith("/python3.11") for word in entry["arguments"])


@pytest.mark.slow
def test_the_projects_own_tests_pass_in_the_python_of_the_torch(project: Path) -> None:
    assert __main__.main(["test", str(project), "--binding=pybind", "--torch=2.13"]) == 0


@pytest.mark.slow
def test_a_further_python_compiles_no_device_code(project: Path, tmp_path: Path) -> None:
    ran = {}
    for version in ("3.11", "3.13"):
        report = tmp_path / f"{version}.html"
        words = ["--binding=pybind", f"--python={version}", f"--variant={CU130}", "--archs=9.0", f"--report={report}"]
        assert __main__.main(["wheel", str(project), *words, f"--out={tmp_path}"]) == 0
        actions = json.loads(report.with_suffix(".json").read_text())["actions"]
        ran[version] = [action["mnemonic"] for action in actions for part in action["variants"] if part["did"] == "run"]
    assert any(mnemonic.startswith("Cuda") for mnemonic in ran["3.11"])
    assert not any(mnemonic.startswith("Cuda") for mnemonic in ran["3.13"])
    assert len(ran["3.13"]) < len(ran["3.11"])
    assert [wheel.name.split("-")[2] for wheel in wheels(tmp_path)] == ["cp311", "cp313"]
