"""`driver clean` removes what builds have written, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from py_driver.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

VARIANT = "torch213-cxx11-cpu-x86_64-linux"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (f"build/{VARIANT}/metadata.json", ".dev/ab/x.so", "build.toml", "csrc/a.cpp"):
        path = tmp_path / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path / "kernel"


def test_a_dry_run_removes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", str(project), "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(project / "build" / VARIANT), str(project / ".dev")]
    assert (project / "build" / VARIANT / "metadata.json").is_file()


def test_variants_go_and_sources_stay(project: Path) -> None:
    assert main(["clean", str(project)]) == 0
    assert sorted(path.name for path in project.iterdir()) == ["build.toml", "csrc"]
    assert main(["clean", str(project)]) == 0


def test_slices_go_and_what_else_is_beside_them_stays(project: Path) -> None:
    for name in (
        f"sm90/{VARIANT}/metadata.json",
        "sm90/notes.txt",
        "mine/notes/a.txt",
        f"sm80/{VARIANT}/metadata.json",
    ):
        path = project / "build-slices" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert main(["clean", str(project)]) == 0
    left = sorted(path.relative_to(project / "build-slices").as_posix() for path in project.glob("build-slices/**/*"))
    assert left == ["mine", "mine/notes", "mine/notes/a.txt", "sm90", "sm90/notes.txt"]


def test_foreign_files_and_links_stay(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "build" / "notes").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (project / "build" / "torch215-cxx11-cpu-x86_64-linux").symlink_to(tmp_path / "elsewhere")
    assert main(["clean", str(project), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kept"]) == 2
    assert sorted(path.name for path in (project / "build").iterdir()) == ["notes", "torch215-cxx11-cpu-x86_64-linux"]


def test_projects_below_a_directory_are_not_cleaned(project: Path) -> None:
    assert main(["clean", str(project.parent)]) == 2
    assert (project / "build" / VARIANT).is_dir()
