"""Pythons that a module may be for: of the lock, and installed ones."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest

from py_driver.errors import Code, DriverError
from py_driver.matrix.installed_python import installed_python, kept_pythons, python_at, version_of
from py_driver.matrix.pythons import Python, all_locked, check_torch, locked
from py_driver.matrix.releases import Releases

MATRIX = Releases().matrix
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))


def program(directory: Path, text: str) -> Path:
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_names_of_an_abi() -> None:
    python, threads = Python("3.13", "3.13"), Python("3.13t", "3.13t")
    assert (python.tag, python.wheel_tag) == ("cp313", "cp313-cp313")
    assert (threads.tag, threads.wheel_tag) == ("cp313t", "cp313-cp313t")
    assert threads.suffix("aarch64") == ".cpython-313t-aarch64-linux-gnu.so"


def test_the_lock_has_pythons_that_torch_releases_have_wheels_for() -> None:
    assert [python.version for python in all_locked(MATRIX, "2.4")] == ["3.11"]
    assert [python.version for python in all_locked(MATRIX, "2.15")] == ["3.11", "3.13", "3.14", "3.15"]
    assert all(all_locked(MATRIX, torch.version) for torch in MATRIX.torch)
    assert locked(MATRIX, "3.12") is None


def test_a_python_without_torch() -> None:
    check_torch(MATRIX, "2.13", Python("3.12", "3.12-abc"))
    with pytest.raises(DriverError) as failure:
        check_torch(MATRIX, "2.13", Python("3.15", "3.15"))
    assert failure.value.diagnostics[0].code is Code.UNSUPPORTED


def test_the_headers_of_an_installed_python_are_kept_by_their_contents() -> None:
    python = installed_python(Path(sys.executable))
    assert python.version == version_of(Path(sys.executable)) == OWN
    [(key, directory)] = kept_pythons().items()
    assert key == python.key == installed_python(Path(sys.executable)).key
    text = (Path(directory) / "include" / "python" / "patchlevel.h").read_text()
    assert "#define PY_MINOR_VERSION" in text
    lines = (Path(directory) / "python.symbols").read_text().splitlines()
    assert lines[0] == f"Python {OWN}"
    assert {"PyDict_New", "_Py_Dealloc", "PyTuple_New"} <= set(lines)


def test_an_interpreter_whose_version_is_locked_is_taken_out_of_the_lock() -> None:
    python = python_at(Path(sys.executable), MATRIX)
    assert (python.key == OWN) == (OWN in MATRIX.cpython)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "exit code 3"),
        ("echo nonsense", "its output is not as expected"),
        ("echo broken >&2; exit 1", "broken"),
    ],
)
def test_what_is_no_python(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DriverError) as failure:
        installed_python(program(tmp_path, text))
    [diagnostic] = failure.value.diagnostics
    assert diagnostic.code is Code.SET_UP
    assert message in diagnostic.message


def facts(tmp_path: Path, **other: object) -> str:
    values = {
        "implementation": "CPython",
        "system": "Linux",
        "machine": platform.machine(),
        "version": [3, 13],
        "abiflags": "",
        "include": [str(tmp_path), str(tmp_path)],
        "multiarch": "",
        "shared": False,
        "library": ["", ""],
        "executable": sys.executable,
        **other,
    }
    return f"echo '{json.dumps(values)}'"


@pytest.mark.parametrize(
    ("other", "code", "message"),
    [
        ({}, Code.SET_UP, "has no headers"),
        ({"implementation": "PyPy"}, Code.UNSUPPORTED, "is PyPy for Linux"),
        ({"machine": "riscv64"}, Code.UNSUPPORTED, "on riscv64"),
        ({"abiflags": "d"}, Code.UNSUPPORTED, "ABI flags `d`"),
        ({"version": [2, 7]}, Code.UNSUPPORTED, "is Python 2.7"),
    ],
)
def test_pythons_that_nothing_is_built_for(tmp_path: Path, other: dict[str, object], code: Code, message: str) -> None:
    with pytest.raises(DriverError) as failure:
        installed_python(program(tmp_path, facts(tmp_path, **other)))
    [diagnostic] = failure.value.diagnostics
    assert diagnostic.code is code
    assert message in diagnostic.message
