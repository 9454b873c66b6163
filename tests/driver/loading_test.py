"""Running a project's example: what it prints, and a clear error where it is missing or fails."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from py_driver import loading
from py_driver.errors import Code, DriverError
from py_driver.loading import Torch, fits, importable_torch, python_for, run_example
from py_driver.output import Output
from py_driver.variants.names import parse

if TYPE_CHECKING:
    from pathlib import Path

_FAKE = """#!/bin/sh
echo '{answer}'
"""


def test_output_of_the_example(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text("import os\nprint('one', os.environ['HF_HUB_OFFLINE'])\n")
    assert run_example(tmp_path, sys.executable) == "one 1"


def test_no_example(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        run_example(tmp_path, sys.executable)
    assert caught.value.diagnostics[0].code is Code.FILE_MISSING


@pytest.mark.parametrize(("text", "shown"), [("raise ValueError('wrong')", "ValueError: wrong"), ("exit(3)", "code 3")])
def test_example_that_fails(tmp_path: Path, text: str, shown: str) -> None:
    (tmp_path / "example.py").write_text(text)
    with pytest.raises(DriverError) as caught:
        run_example(tmp_path, sys.executable)
    assert caught.value.diagnostics[0].code is Code.LOAD_FAILED
    assert shown in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('["2.13.0+cu130", "13.0", null]', ("2.13", "cu130")),
        ('["2.15.1+cpu", null, null]', ("2.15", "cpu")),
        ('["2.13.0+rocm7.2", null, "7.2.53211-e1a6bc5663"]', ("2.13", "rocm72")),
    ],
)
def test_torch_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, expected: tuple[str, str] | None
) -> None:
    python = tmp_path / "python3"
    python.write_text(_FAKE.format(answer=answer))
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(python))
    found = importable_torch()
    assert found == (Torch(python=str(python), version=expected[0], backend=expected[1]) if expected else None)


@pytest.mark.parametrize(
    ("cell", "version", "backend", "answer"),
    [
        ("torch213-cxx11-cpu-x86_64-linux", "2.13", "cpu", True),
        ("torch213-cxx11-cpu-x86_64-linux", "2.13", "cu130", False),
        ("torch213-cxx11-cpu-x86_64-linux", "2.15", "cpu", False),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cu130", True),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cu132", True),
        ("torch213-cxx11-cu132-x86_64-linux", "2.13", "cu130", False),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cu126", False),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cpu", False),
        ("torch-stable-abi29-cpu-x86_64-linux", "2.9", "cpu", True),
        ("torch-stable-abi29-cpu-x86_64-linux", "2.13", "cpu", True),
        ("torch-stable-abi210-cpu-x86_64-linux", "2.9", "cpu", False),
        ("torch-stable-abi29-cu130-x86_64-linux", "2.13", "cu132", True),
        ("torch-stable-abi29-cu130-x86_64-linux", "2.13", "cpu", False),
        ("torch-cpu", "2.13", "cpu", False),
    ],
)
def test_torch_loads_older_minor_versions_of_its_cuda(cell: str, version: str, backend: str, *, answer: bool) -> None:
    assert fits(Torch(python="", version=version, backend=backend), parse(cell)) is answer


def test_environment_lies_on_top_of_a_torch_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[str, list[str], dict[str, object]]] = []

    def ensure(name: str, requirements: list[str], _output: Output, **options: object) -> Path:
        made.append((name, [r.split("=")[0] for r in requirements], options))
        return tmp_path

    monkeypatch.setattr(loading, "ensure_venv", ensure)
    there = Torch(python="/python", version="2.13", backend="cpu")
    monkeypatch.setattr(loading, "importable_torch", lambda: there)
    cells = [parse(f"torch{version}-cxx11-cpu-x86_64-linux") for version in ("215", "213")]
    python_for(cells, Output())
    python_for(cells[:1], Output())
    assert made[0][2] == {"python": "/python", "inherit": True}
    assert "torch" not in made[0][1]
    assert made[1][2] == {}
    assert made[1][1][0] == "torch"
