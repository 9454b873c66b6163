"""A kernel that follows its sources: what is loaded stays, whatever becomes of the files that name the newest build."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from typing import TYPE_CHECKING

import pytest
from rules_torch_kernels import live

if TYPE_CHECKING:
    from pathlib import Path

_METADATA = {
    "name": "my-kernel",
    "version": 1,
    "license": "MIT",
    "python-depends": [],
    "backend": {"type": "cpu"},
}


def _build(project: Path, value: int) -> Path:
    """Put a variant of Python files where `driver run --watch` puts one, and name it; the file that does."""
    path = project / ".dev" / f"_my_kernel_cpu_{value}" / "torch-cpu"
    path.mkdir(parents=True)
    (path / "__init__.py").write_text(f"value = {value}\n", encoding="utf-8")
    (path / "metadata.json").write_text(json.dumps(_METADATA | {"id": path.parent.name}), encoding="utf-8")
    pointer = project / ".dev" / "current.cpu.json"
    made = {"module": "my_kernel", "path": str(path), "backend": "cpu"}
    pointer.with_suffix(".new").write_text(json.dumps(made), encoding="utf-8")
    pointer.with_suffix(".new").replace(pointer)
    return pointer


def test_the_newest_build(tmp_path: Path) -> None:
    _build(tmp_path, 1)
    kernel = live.load("my_kernel", tmp_path)
    assert kernel.value == 1
    _build(tmp_path, 2)
    assert kernel.value == 2


def test_a_build_that_is_loaded_stays_when_its_files_go(tmp_path: Path) -> None:
    _build(tmp_path, 1)
    kernel = live.load("my_kernel", tmp_path)
    shutil.rmtree(tmp_path / ".dev")
    with pytest.warns(RuntimeWarning, match="the last build of my_kernel stays") as caught:
        assert [kernel.value, kernel.value, "value" in dir(kernel)] == [1, 1, True]
    assert len(caught) == 1
    assert "my_kernel" in repr(kernel)
    _build(tmp_path, 2)
    assert kernel.value == 2
    (tmp_path / ".dev" / "current.cpu.json").unlink()
    with pytest.warns(RuntimeWarning, match="stays"):
        assert kernel.value == 2


def test_a_pointer_that_is_no_build_is_told_once(tmp_path: Path) -> None:
    pointer = _build(tmp_path, 1)
    kernel = live.load("my_kernel", tmp_path)
    pointer.write_text("{", encoding="utf-8")
    with pytest.warns(RuntimeWarning, match="stays") as caught:
        assert [kernel.value, kernel.value] == [1, 1]
    assert len(caught) == 1


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_program_may_change_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    pointer = _build(tmp_path / "project", 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    if by == "variable":
        monkeypatch.setenv(live.LIVE, os.path.relpath(pointer))
    kernel = live.load("my_kernel", "project" if by == "argument" else "")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel.value == 1
        _build(tmp_path / "project", 2)
        assert kernel.value == 2


def test_a_project_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _build(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    kernel = live.load("my_kernel", ".")
    monkeypatch.chdir("/")
    assert kernel.value == 1


def test_without_a_build(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="directory of a project"):
        live.load("my_kernel", tmp_path)
    pointer = _build(tmp_path, 1)
    pointer.unlink()
    pointer.mkdir()
    with pytest.raises(RuntimeError, match="names no build"):
        live.load("my_kernel", tmp_path)
