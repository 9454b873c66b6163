"""Running a project's example: what it prints, and a clear error where it is missing or fails."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from py_driver.authoring.example import run_example
from py_driver.errors import Code, DriverError

if TYPE_CHECKING:
    from pathlib import Path


def test_output_of_the_example(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text("import os\nprint('one', os.environ['HF_HUB_OFFLINE'])\n")
    assert run_example(tmp_path, sys.executable) == "one 1"


def test_no_example(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        run_example(tmp_path, sys.executable)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (Code.FILE_MISSING, f"{tmp_path / 'example.py'} is missing")
    assert found.help.startswith("write one: kernels.get_local_kernel(Path(__file__).parent / 'build')")


def test_an_example_leaves_no_bytecode(tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    (tmp_path / "example.py").write_text("import beside\n")
    assert run_example(tmp_path, sys.executable) == ""
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(("text", "shown"), [("raise ValueError('wrong')", "ValueError: wrong"), ("exit(3)", "code 3")])
def test_example_that_fails(tmp_path: Path, text: str, shown: str) -> None:
    (tmp_path / "example.py").write_text(text)
    with pytest.raises(DriverError) as caught:
        run_example(tmp_path, sys.executable)
    assert caught.value.diagnostics[0].code is Code.LOAD_FAILED
    assert shown in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].help == f"to see all of it, run {sys.executable} {tmp_path / 'example.py'}"
