"""What a link of a project leads to is shipped as a file of the project: git must have it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.publishing.card_files import benchmarks, texts_of_tests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MANIFEST = """\
[general]
name = "xx"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[torch]
src = ["torch-ext/binding.cpp"]
include = ["."]
pyext = ["py", "inc", "config"]

[kernel.x]
backend = "cpu"
depends = []
include = ["csrc"]
src = ["csrc/x.cpp", "csrc/x.h"]
"""
CREDENTIAL = "AUTHORIZATION: basic c2VjcmV0"
PACKAGE = "torch-ext/xx"


def git(place: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(place), *identity, *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "repository" / "x"
    for name, text in {
        "build.toml": MANIFEST,
        "csrc/x.cpp": '#include "x.h"\n',
        "csrc/x.h": "",
        "torch-ext/binding.cpp": "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n",
        f"{PACKAGE}/__init__.py": "",
        "../common/shared.py": "shared = 1\n",
        "../.gitignore": "secret*\n",
        "secret.py": "token = 1\n",
        ".hidden/tracked.py": "hidden = 1\n",
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return project


@pytest.fixture
def tracked(project: Path) -> Path:
    git(project.parent, "init", "-q")
    git(project.parent, "config", "http.https://x/.extraheader", CREDENTIAL)
    git(project.parent, "add", "-A")
    git(project.parent, "commit", "-q", "-m", "x")
    return project


def link(project: Path, name: str, target: str) -> None:
    """Put a link where something may be, and let git have it if it has the project."""
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    if (project.parent / ".git").is_dir():
        git(project, "add", name)


def _directly(project: Path) -> str:
    link(project, f"{PACKAGE}/settings.py", "../../../.git/config")
    return f"{PACKAGE}/settings.py"


def _by_a_chain(project: Path) -> str:
    link(project, "first", "../.git/config")
    link(project, f"{PACKAGE}/settings.py", "../../first")
    return f"{PACKAGE}/settings.py"


def _by_a_directory(project: Path) -> str:
    link(project, "there", "../.git")
    link(project, f"{PACKAGE}/settings.py", "../../there/config")
    return f"{PACKAGE}/settings.py"


def _as_a_directory(project: Path) -> str:
    link(project, f"{PACKAGE}/there", "../../../.git")
    return f"{PACKAGE}/there"


def _as_the_package(project: Path) -> str:
    (project / "secret").mkdir()
    (project / PACKAGE / "__init__.py").rename(project / "secret" / "__init__.py")
    (project / PACKAGE).rmdir()
    link(project, PACKAGE, "../secret")
    return PACKAGE


def _as_data(project: Path) -> str:
    link(project, f"{PACKAGE}/git.config", "../../../.git/config")
    return f"{PACKAGE}/git.config"


def _as_a_header(project: Path) -> str:
    link(project, "csrc/x.h", "../../.git/config")
    return "csrc/x.h"


def _as_a_source(project: Path) -> str:
    link(project, "torch-ext/binding.cpp", "../secret.py")
    return "torch-ext/binding.cpp"


def _as_a_directory_of_headers(project: Path) -> str:
    (project / "secret").mkdir()
    (project / "secret" / "x.h").touch()
    (project / "secret" / "x.cpp").touch()
    for name in ("x.h", "x.cpp"):
        (project / "csrc" / name).unlink()
    (project / "csrc").rmdir()
    link(project, "csrc", "secret")
    return "csrc/x.h"


def _as_the_manifest(project: Path) -> str:
    link(project, "build.toml", "../.git/config")
    return "build.toml"


def _out_of_the_repository(project: Path) -> str:
    link(project, f"{PACKAGE}/settings.py", "/etc/hostname")
    return f"{PACKAGE}/settings.py"


def _what_git_ignores(project: Path) -> str:
    link(project, f"{PACKAGE}/settings.py", "../../secret.py")
    return f"{PACKAGE}/settings.py"


def _of_another_repository(project: Path) -> str:
    other = project / "secret_repository"
    other.mkdir()
    (other / "there.py").touch()
    git(other, "init", "-q")
    git(other, "add", "-A")
    link(project, f"{PACKAGE}/settings.py", "../../secret_repository/there.py")
    return f"{PACKAGE}/settings.py"


@pytest.mark.parametrize(
    "make",
    [
        _directly,
        _by_a_chain,
        _by_a_directory,
        _as_a_directory,
        _as_the_package,
        _as_data,
        _as_a_header,
        _as_a_source,
        _as_a_directory_of_headers,
        _as_the_manifest,
        _out_of_the_repository,
        _what_git_ignores,
        _of_another_repository,
    ],
)
def test_link_to_what_git_does_not_have(tracked: Path, make: Callable[[Path], str]) -> None:
    name = make(tracked)
    with pytest.raises(DriverError) as caught:
        plan_directory(tracked, Releases())
    [found, *_] = [diagnostic for diagnostic in caught.value.diagnostics if diagnostic.message.startswith(f"`{name}` ")]
    assert found.code is Code.PATH_ESCAPES
    to = (tracked / name).resolve()
    inside = to.is_relative_to(tracked)
    end = f"to {to.relative_to(tracked)}, which git does not have" if inside else f"out of the project, to {to}"
    assert found.message == f"`{name}` is a symbolic link {end}"
    assert CREDENTIAL not in str(caught.value.diagnostics)


def test_header_that_no_section_lists(tracked: Path) -> None:
    (tracked / "csrc" / "x.cpp").write_text('#include "../tests/t.inc"\n')
    link(tracked, "tests/t.inc", "../../common/shared.py")
    assert "tests/t.inc" in plan_directory(tracked, Releases()).files
    link(tracked, "tests/t.inc", "../../.git/config")
    with pytest.raises(DriverError, match=r"tests/t\.inc"):
        plan_directory(tracked, Releases())


@pytest.mark.parametrize("target", ["../../../common/shared.py", "../../.hidden/tracked.py", "__init__.py"])
def test_link_to_what_git_has(tracked: Path, target: str) -> None:
    link(tracked, f"{PACKAGE}/settings.py", target)
    assert f"{PACKAGE}/settings.py" in plan_directory(tracked, Releases()).files


def test_link_into_a_submodule(tracked: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "there.py").touch()
    git(other, "init", "-q")
    git(other, "add", "-A")
    git(other, "commit", "-q", "-m", "x")
    git(tracked, "submodule", "add", "-q", str(other), "sub")
    link(tracked, f"{PACKAGE}/settings.py", "../../sub/there.py")
    assert f"{PACKAGE}/settings.py" in plan_directory(tracked, Releases()).files
    (tracked / "sub" / "secret.py").touch()
    link(tracked, f"{PACKAGE}/settings.py", "../../sub/secret.py")
    with pytest.raises(DriverError, match=r"to sub/secret\.py, which git does not have"):
        plan_directory(tracked, Releases())


def test_new_file_of_a_name_of_its_own_is_no_link(tracked: Path) -> None:
    (tracked / PACKAGE / "secret.py").touch()
    assert f"{PACKAGE}/secret.py" in plan_directory(tracked, Releases()).files


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("../../secret.py", ""),
        ("../../.hidden/tracked.py", "is a symbolic link to .hidden/tracked.py, which is hidden"),
        ("../../../common/shared.py", "is a symbolic link out of the project, to "),
    ],
)
@pytest.mark.parametrize("how", ["no repository", "no git", "not of this project"])
def test_without_git(project: Path, monkeypatch: pytest.MonkeyPatch, how: str, target: str, said: str) -> None:
    if how != "no repository":
        git(project.parent, "init", "-q")
    link(project, f"{PACKAGE}/settings.py", target)
    if how == "no git":
        git(project.parent, "add", "-A")
        monkeypatch.setenv("PATH", "/nonexistent")
    if not said:
        assert f"{PACKAGE}/settings.py" in plan_directory(project, Releases()).files
        return
    with pytest.raises(DriverError, match=said):
        plan_directory(project, Releases())


def _without_a_head(project: Path) -> str:
    (project.parent / ".git" / "HEAD").write_text("nothing\n")
    return "not a git repository"


def _without_an_index(project: Path) -> str:
    (project.parent / ".git" / "index").write_bytes(b"nothing that git can read")
    return "index"


def _in_a_lost_worktree(project: Path) -> str:
    (project / ".git").write_text("gitdir: /nonexistent\n")
    return "not a git repository: /nonexistent"


@pytest.mark.parametrize("target", ["../../secret.py", "__init__.py"])
@pytest.mark.parametrize("break_it", [_without_a_head, _without_an_index, _in_a_lost_worktree])
def test_git_that_refuses(tracked: Path, target: str, break_it: Callable[[Path], str]) -> None:
    link(tracked, f"{PACKAGE}/settings.py", target)
    said = break_it(tracked)
    with pytest.raises(DriverError) as caught:
        plan_directory(tracked, Releases())
    [found] = caught.value.diagnostics
    assert found.code is Code.PATH_ESCAPES
    assert "settings.py` is a symbolic link, and git cannot report whether it has " in found.message
    assert said in found.message


def test_variables_of_git_change_nothing(tracked: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "--work-tree", str(tracked), "add", "-f", str(tracked))
    link(tracked, f"{PACKAGE}/settings.py", "../../secret.py")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tracked))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    with pytest.raises(DriverError, match=r"to secret\.py, which git does not have"):
        plan_directory(tracked, Releases())


@pytest.mark.parametrize("place", ["benchmarks/benchmark_x.py", "tests/test_x.py"])
@pytest.mark.parametrize("target", ["../../.git/config", "../secret.py"])
def test_benchmarks_and_tests(tracked: Path, place: str, target: str) -> None:
    link(tracked, place, target)
    with pytest.raises(DriverError) as caught:
        _ = benchmarks(tracked, "*.py") if place.startswith("b") else texts_of_tests(tracked)
    assert caught.value.diagnostics[0].message.startswith(f"`{place}` is a symbolic link ")
    assert str((tracked / place).resolve().name) in caught.value.diagnostics[0].message


def test_hidden_benchmark_is_not_published(tracked: Path) -> None:
    (tracked / "benchmarks").mkdir()
    (tracked / "benchmarks" / ".hidden.py").touch()
    (tracked / "benchmarks" / "benchmark_x.py").touch()
    found, notes = benchmarks(tracked, "*.py")
    assert [file.path for file in found] == ["benchmarks/benchmark_x.py"]
    assert notes == ["benchmarks/.hidden.py is not published: it is hidden"]
