"""A project with a setup.py, unmodified: checked, built, shared between releases, tested, packed and imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from scaled import FILES, SETUP

from py_driver import __main__

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

CPU = "torch213-cxx11-cpu-x86_64-linux"
CU130 = "torch213-cxx11-cu130-x86_64-linux"
NEXT = "torch215-cxx11-cu130-x86_64-linux"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("setup_py") / "scaled"
    for name, text in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # No cache has it.
    for name, old in (("scale.cu", "* factor;"), ("ops.cpp", "input * factor;")):
        source = directory / "csrc" / name
        source.write_text(source.read_text().replace(old, f"{old[:-1]} + {time.time_ns() % 2**20}.0f * 0.0f;"))
    return directory


def driver(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> dict[str, Any]:
    """What a command printed as JSON."""
    assert __main__.main([*map(str, words), "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def actions(answer: dict[str, Any]) -> dict[str, int]:
    """How many actions ran for each variant."""
    return {variant["variant"]: variant["actions"]["run"] for variant in answer["variants"]}


def test_check_lists_what_is_built(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = driver(capsys, "check", project)
    [module] = answer["records"][CU130]["modules"]
    assert module["name"] == "scaled._C"
    assert module["sources"] == ["csrc/ops.cpp", "csrc/scale.cu"]
    assert module["line"] == SETUP[: SETUP.index("ext_modules")].count("\n") + 1
    assert answer["records"][CPU]["modules"][0]["sources"] == ["csrc/ops.cpp"]
    assert answer["errors"] == []


@pytest.mark.slow
def test_releases_share_what_no_torch_header_is_in(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = driver(capsys, "build", project, f"--variant={CU130}")
    assert actions(first)[CU130] > 0
    # One more release of torch compiles the binding; the kernel, which includes no header of torch, is there.
    both = driver(capsys, "build", project, f"--variant={CU130}", f"--variant={NEXT}")
    assert actions(both)[CU130] == 0
    assert 0 < actions(both)[NEXT] <= 3
    directory = project / "build" / NEXT
    assert sorted(path.name for path in (directory / "scaled").iterdir()) == ["_C.py", "__init__.py", "lib_C.so"]
    # A comment compiles nothing.
    source = project / "csrc" / "scale.cu"
    source.write_text(source.read_text().rstrip("\n") + "  // a comment\n")
    assert actions(driver(capsys, "build", project, f"--variant={CU130}"))[CU130] == 0


def test_wheels_are_for_every_python_and_import(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["wheel", str(project), f"--variant={CPU}", f"--variant={CU130}", f"--out={tmp_path}"]) == 0
    assert capsys.readouterr().out.split() == [str(path) for path in sorted(tmp_path.iterdir())]
    cpu, _ = sorted(tmp_path.iterdir())
    assert cpu.name == "scaled_ops-1.2+cpu.torch213-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(cpu) as archive:
        metadata = archive.read("scaled_ops-1.2+cpu.torch213.dist-info/METADATA").decode()
        archive.extractall(tmp_path / "installed")
    assert "Requires-Dist: torch==2.13.*\nRequires-Dist: packaging\n" in metadata
    assert __main__.main(["abi-check", str(cpu)]) == 0
    # Without a torch, and so in any Python of this machine, the import says in one sentence what is missing.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import scaled._C"],
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "No module named 'torch'" in done.stderr


@pytest.mark.slow
def test_verify_finds_what_the_sources_do_not_make(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driver(capsys, "build", project, f"--variant={CPU}")
    library = project / "build" / CPU / "scaled" / "lib_C.so"
    built = library.read_bytes()
    library.write_bytes(built[:-1] + bytes([built[-1] ^ 1]))
    try:
        [variant] = driver(capsys, "verify", project, f"--variant={CPU}", code=1)["variants"]
    finally:
        library.write_bytes(built)
    assert variant["differences"] == ["scaled/lib_C.so has other bytes"]


@pytest.mark.slow
def test_a_wheel_is_what_its_sources_make(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["wheel", str(project), f"--variant={CPU}", f"--out={tmp_path}"]) == 0
    capsys.readouterr()
    [wheel] = tmp_path.iterdir()
    [variant] = driver(capsys, "verify", wheel, f"--source={project}")["variants"]
    assert variant == {"variant": CPU, "place": str(wheel), "differences": [], "report": ""}
    assert driver(capsys, "verify", wheel, code=2)["errors"][0]["code"] == "E200"


def test_a_project_passes_its_own_tests(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["test", str(project), "--torch=2.13", "--backend=cpu", "--", "-q"]) == 0
    assert "2 passed" in capfd.readouterr().out


def test_what_cannot_be_built_names_the_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = project / "setup.py"
    script.write_text(SETUP.replace('"-O2"', '"-O2", "-march=native"'))
    try:
        answer = driver(capsys, "check", project, code=2)
    finally:
        script.write_text(SETUP)
    problem = answer["errors"][0]
    assert problem["code"] == "E010"
    assert "-march=native" in problem["message"]
    assert problem["file"].endswith("setup.py")


def test_gen_has_nothing_to_write_without_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='plain', version='1', py_modules=[])\n"
    )
    assert __main__.main(["gen", str(tmp_path)]) == 2
    assert "has no extension module" in capsys.readouterr().err
    assert not (tmp_path / "BUILD.bazel").exists()


@pytest.mark.slow
def test_check_names_libraries_that_are_compiled_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'from setuptools import setup\nsetup(name="x", version="1", packages=["x"], package_data={"x": ["*.so"]})\n'
    (tmp_path / "x").mkdir()
    for name, content in (("setup.py", text), ("x/__init__.py", ""), ("x/old.so", "compiled")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert __main__.main(["check", str(tmp_path)]) == 0
    assert "note: the wheel has x/old.so, which the project ships compiled" in capsys.readouterr().err
