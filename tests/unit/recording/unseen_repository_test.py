"""The note on a git repository that a build asks for and does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.recording.unseen_repository import unseen_repository
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ASKED = ("git rev-parse HEAD: ran without a network", "nvcc -V: CUDA 13.0")


def test_a_repository_above_the_project_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    project = tmp_path / "python"
    project.mkdir()
    (project / "setup.py").touch()
    assert unseen_repository(project, ASKED) is None
    (tmp_path / ".git").mkdir()
    note = unseen_repository(project, ASKED)
    assert note is not None
    assert (note.span.file, str(tmp_path) in note.message) == (str(project / "setup.py"), True)
    assert unseen_repository(project, ASKED[1:]) is None
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").touch()
    assert unseen_repository(project, ASKED) is None


def test_a_release_of_the_package_index_has_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / ".git").mkdir()
    release = tmp_path / "cache" / "sources" / "a-1.0"
    release.mkdir(parents=True)
    assert unseen_repository(release, ASKED) is None
