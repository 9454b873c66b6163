"""What a source distribution of a project has."""

from __future__ import annotations

import importlib
import re
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

CLIENT = Path(__file__).parents[3] / "py_driver" / "client"


@pytest.fixture
def backend(project: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CLIENT))
    monkeypatch.chdir(project)
    return importlib.import_module("rules_torch_kernels.build_backend")


def git(place: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(place), *identity, *words], check=True, capture_output=True)


def packed(backend: ModuleType, place: Path) -> set[str]:
    """The files of the source distribution of the project, without those that each has."""
    with tarfile.open(place / backend.build_sdist(str(place))) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    always = {"PKG-INFO", "build.toml", "torch-ext/tuned/__init__.py", "torch-ext/tuned/weights.bin"}
    assert found >= always
    return found - always


IGNORED = ("secret.py", "gha-creds-1.json", "venv/lib/x.py", "torch-ext/tuned/secret.key", "nested/other/key.pem")


@pytest.fixture
def ignoring(project: Path) -> Path:
    """The project in a repository that ignores some files."""
    git(project, "init", "-q")
    (project / ".gitignore").write_text("secret*\ngha-creds-*.json\nvenv/\n")
    for name in (*IGNORED, "tracked/secret.h", "new.cu", "lost.cu", "nested/other/x.h", '\u00e9 "q.txt'):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "nested/other/.gitignore").write_text("*.pem\n")
    git(project, "add", "-f", "tracked/secret.h", "lost.cu", "build.toml")
    (project / "lost.cu").unlink()
    return project


FOUND = {"tracked/secret.h", "new.cu", "nested/other/x.h", '\u00e9 "q.txt'}


@pytest.mark.usefixtures("ignoring")
def test_what_git_ignores_is_not_packed(backend: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed(backend, tmp_path) == FOUND
    other = tmp_path / "elsewhere"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(Path.cwd()))
    assert packed(backend, tmp_path) == FOUND


def test_project_below_the_top_of_a_repository(backend: ModuleType, project: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("*.pem\n")
    for name in ("x.pem", "x.cu"):
        (project / name).touch()
    assert packed(backend, tmp_path) == {"x.cu"}


def test_submodules_and_other_repositories_are_packed(backend: ModuleType, ignoring: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("x.h", "y.log"):
        (other / name).touch()
    (other / ".gitignore").write_text("*.log\n")
    git(other, "init", "-q")
    git(other, "add", "x.h", ".gitignore")
    git(other, "commit", "-q", "-m", "x")
    git(ignoring, "submodule", "add", "-q", str(other), "sub")
    git(ignoring, "submodule", "add", "-q", str(other), "not_fetched")
    git(ignoring, "submodule", "deinit", "-f", "not_fetched")
    git(ignoring, "clone", "-q", str(other), "cloned")
    (ignoring / "sub" / "y.log").touch()
    assert packed(backend, tmp_path) == FOUND | {"sub/x.h", "cloned/x.h"}


def test_project_that_git_ignores_as_a_whole(backend: ModuleType, project: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text(f"{project.name}/\n")
    (project / "x.cu").touch()
    assert packed(backend, tmp_path) == {"x.cu"}


def test_manifest_that_git_ignores(backend: ModuleType, project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    (project / ".gitignore").write_text("*.toml\n")
    with pytest.raises(RuntimeError, match=r"git ignores build\.toml"):
        backend.build_sdist(str(tmp_path))


@pytest.mark.parametrize("how", ["no such worktree", "no index", "no git"])
def test_git_that_does_not_answer(
    backend: ModuleType, ignoring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "no such worktree":
        (ignoring / ".git").rename(tmp_path / "gone")
        (ignoring / ".git").write_text("gitdir: /elsewhere\n")
    elif how == "no index":
        (ignoring / ".git" / "index").write_bytes(b"nothing that git can read")
    else:
        monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RuntimeError, match=re.escape(f"git cannot list the ignored files of {ignoring} it ignores")):
        backend.build_sdist(str(tmp_path))
    assert not list(tmp_path.glob("*.tar.gz"))


def test_hidden_files_are_not_packed(backend: ModuleType, project: Path, tmp_path: Path) -> None:
    for name in (".env", ".ssh/key", "torch-ext/tuned/.netrc", "torch-ext/.hidden/x.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("SECRET")
    (project / "torch-ext/tuned/linked.py").symlink_to("/etc/hostname")
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        found = {member.name.partition("/")[2]: member.type for member in archive.getmembers()}
    assert {name: kind for name, kind in found.items() if kind != tarfile.REGTYPE} == {
        "torch-ext/tuned/linked.py": tarfile.SYMTYPE
    }
    sources = {"__init__.py", "weights.bin", "linked.py"}
    assert set(found) == {"PKG-INFO", "build.toml", *(f"torch-ext/tuned/{name}" for name in sources)}
