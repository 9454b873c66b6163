"""A new project is made ready for editors, and nothing there keeps it from being made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.authoring.new_project import create, rendered, template_of
from py_driver.editor.project import begin, refresh
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RELEASES = Releases()


def test_without_archives_a_new_project_has_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))
    project = tmp_path / "silu"
    create(project, rendered(template_of("elementwise"), "silu", "", ()), RELEASES)
    written = begin(project, RELEASES, Output())
    assert ".clangd" in written
    assert "compile_commands.json" not in written
    assert all((project / path).is_file() for path in written)
    named = (project / "build.toml").read_text(encoding="utf-8").splitlines()[0].removeprefix("#:schema ")
    assert named in written


def test_a_database_of_the_user_is_neither_written_nor_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("py_driver.editor.project.needs_network", lambda *_: False)
    project = tmp_path / "silu"
    create(project, rendered(template_of("elementwise"), "silu", "", ()), RELEASES)
    (project / "compile_commands.json").write_text("[]")
    assert ".clangd" in begin(project, RELEASES, Output())
    assert "was not written by `driver ide`" in capsys.readouterr().err
    refresh(project, RELEASES, Output())
    assert (project / "compile_commands.json").read_text() == "[]"
    assert capsys.readouterr().err == ""
