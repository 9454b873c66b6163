"""git is asked about a project's sources, and runs nothing that the project's own configuration names."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from tuned import CANARY, FILES, publish

from py_driver.errors import Code, DriverError
from py_driver.publishing.git import checked_out, sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCES = ("build.toml", "torch-ext/tuned/__init__.py", "torch-ext/tuned/weights.bin")
INIT, WEIGHTS = SOURCES[1:]


def git(place: Path, *words: str | Path, fails: bool = False) -> str:
    command = ["git", "-C", str(place), "-c", "user.name=n", "-c", "user.email=e@x", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=not fails, timeout=60)
    return done.stdout.strip()


def commit(project: Path, *options: str) -> None:
    git(project, "init", "-q", *options)
    git(project, "add", "build.toml", "torch-ext")
    git(project, "commit", "-q", "-m", "m")


@pytest.fixture
def trap(tmp_path: Path) -> Callable[[str], Path]:
    """Write a program that leaves its environment in a file `trace-NAME`."""

    def write(name: str) -> Path:
        path = tmp_path / f"trap-{name}"
        rest = "cat" if name in {"clean", "smudge"} else ""
        path.write_text(f"#!/bin/sh\nenv >> {tmp_path}/trace-{name}\n{rest}\n")
        path.chmod(0o755)
        return path

    return write


def traces(tmp_path: Path) -> set[str]:
    return {path.name.removeprefix("trace-") for path in tmp_path.glob("trace-*")}


def _touch(project: Path) -> None:
    """The same content in new files, so that git looks into them."""
    for name in SOURCES:
        content = (project / name).read_bytes()
        (project / name).unlink()
        (project / name).write_bytes(content)


def test_nothing_that_the_project_names_is_run(project: Path, tmp_path: Path, trap: Callable[[str], Path]) -> None:
    (project / ".gitattributes").write_text("*.py filter=one diff=one\n*.bin filter=two\n")
    commit(project)
    git(project, "add", ".gitattributes")
    git(project, "commit", "-q", "-m", "attributes")
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit", "reference-transaction"):
        shutil.copy(trap("hook"), hooks / hook)
    settings = {
        "core.fsmonitor": trap("fsmonitor"),
        "core.pager": trap("pager"),
        "pager.ls-files": trap("pager"),
        "core.editor": trap("editor"),
        "core.sshCommand": trap("ssh"),
        "credential.helper": trap("credential"),
        "filter.one.clean": trap("clean"),
        "filter.one.smudge": trap("smudge"),
        "filter.one.required": "true",
        "filter.two.process": trap("process"),
        "diff.external": trap("external"),
        "diff.one.textconv": trap("textconv"),
        "diff.one.command": trap("command"),
        "alias.ls-tree": f"!{trap('alias')}",
    }
    for name, value in settings.items():
        git(project, "config", name, str(value))
    _touch(project)
    publish("http://127.0.0.1:9", project, "--dry-run", code=4)  # nobody is there: git has been asked by then
    assert traces(tmp_path) == set()
    git(project, "status", fails=True)  # the same traps shut where git is asked as one does
    git(project, "update-ref", "refs/heads/another", "HEAD")
    assert {"fsmonitor", "clean", "process", "hook"} <= traces(tmp_path)


def test_no_credential_reaches_git(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(project)
    real = shutil.which("git")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nenv >> {tmp_path}/environment\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    secret = {"HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PIP_INDEX_URL", "GIT_ASKPASS"}
    for name in secret:
        monkeypatch.setenv(name, f"https://n:{CANARY}@h/")
    publish("http://127.0.0.1:9", project, "--dry-run", code=4)
    seen = (tmp_path / "environment").read_text()
    assert CANARY not in seen
    assert {line.partition("=")[0] for line in seen.splitlines()} & {"HF_TOKEN", *secret} == set()


def test_submodule_runs_nothing(project: Path, tmp_path: Path, trap: Callable[[str], Path]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("x")
    git(other, "init", "-q")
    git(other, "add", "file")
    git(other, "commit", "-q", "-m", "m")
    commit(project)
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub")
    git(project, "commit", "-q", "-m", "submodule")
    git(project / "sub", "config", "core.fsmonitor", str(trap("fsmonitor")))
    (project / "sub" / "file").touch()
    assert sources(project, SOURCES)[1] == ""
    assert traces(tmp_path) == set()
    git(project, "status", fails=True)
    assert traces(tmp_path) == {"fsmonitor"}


def test_nothing_is_fetched(project: Path, tmp_path: Path, trap: Callable[[str], Path]) -> None:
    commit(project)
    git(project, "config", "uploadpack.allowFilter", "true")
    part = tmp_path / "part"
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=tree:0", f"file://{project}", part)
    shutil.copytree(project, part, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    git(part, "config", "remote.origin.url", f"ext::{trap('remote')}")
    git(part, "config", "protocol.allow", "always")
    with pytest.raises(DriverError) as caught:
        sources(part, SOURCES)
    assert caught.value.diagnostics[0].code is Code.DIRTY_TREE
    assert traces(tmp_path) == set()
    git(part, "ls-tree", "-r", "HEAD", fails=True)
    assert traces(tmp_path) == {"remote"}


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"])
def test_variables_of_git_say_nothing(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    commit(project)
    monkeypatch.setenv(name, "/nowhere")
    assert sources(project, SOURCES)[1] == ""


@pytest.mark.parametrize("how", ["changed", "staged", "added", "removed", "link", "directory", "pipe"])
def test_change_is_noticed(project: Path, how: str) -> None:
    commit(project)
    assert sources(project, SOURCES) == ((git(project, "rev-parse", "HEAD"), False), "")
    path = project / INIT
    path.unlink()
    if how in {"changed", "staged"}:
        path.write_text("x = 2\n")
    elif how == "added":
        path.write_bytes(FILES["__init__.py"])
        (project / "new").touch()
    elif how == "link":
        path.symlink_to("weights.bin")
    elif how == "directory":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    if how == "staged":
        git(project, "add", INIT)
    (_, dirty), said = sources(project, SOURCES)
    assert (dirty, said) == (True, "new" if how == "added" else INIT)


def test_what_is_as_the_commit_has_it_is_no_change(project: Path) -> None:
    (project / ".gitignore").write_text("ignored\n")
    (project / "link").symlink_to("nowhere")
    (project / "a b\n\u00e4").write_text("")
    commit(project)
    git(project, "add", "-A", ":!build")
    git(project, "commit", "-q", "-m", "all")
    (project / "ignored").write_text("x")
    (project / "build" / "new").touch()
    (project / INIT).chmod(0o755)
    _touch(project)
    assert sources(project, SOURCES)[1] == ""


def test_in_a_directory_of_a_larger_repository(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "tuned/build.toml", "tuned/torch-ext")
    git(tmp_path, "commit", "-q", "-m", "m")
    (tmp_path / "elsewhere").touch()
    assert sources(project, SOURCES)[1] == ""
    (project / INIT).write_text("x = 2\n")
    assert sources(project, SOURCES)[1] == INIT


def test_links_out_of_a_project_are_copied(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # Debian 12 has Python 3.11.2
    (project / INIT).chmod(0o755)
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "a.h").write_text("old\n")
    for name, target in {
        "a.h": "../common/a.h",
        "common": "../common",
        "weights": WEIGHTS,
        "gone": "../nowhere",
        "machine": "/etc/hostname",
        "torch-ext/tuned/top": "../..",
        "round": "torch-ext/tuned/top/../../../../../etc/hostname",
    }.items():
        (project / name).symlink_to(target)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "common", "tuned")
    git(tmp_path, "commit", "-q", "-m", "m")
    (tmp_path / "common" / "a.h").write_text("new\n")
    with checked_out(project, "HEAD") as found:
        for path in (found / "a.h", found / "common" / "a.h"):
            assert path.read_text() == "old\n"
            assert path.resolve().is_relative_to(found.resolve())
        assert (found / "weights").readlink().as_posix() == WEIGHTS
        assert not os.path.lexists(found / "machine")
        assert not os.path.lexists(found / "round")
        assert (found / INIT).stat().st_mode & 0o100
        assert not (found / WEIGHTS).stat().st_mode & 0o100


@pytest.fixture
def submodule(project: Path, tmp_path: Path) -> Path:
    """The directory of a submodule with the file a.h, in the project's commit."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.h").write_text("old\n")
    git(other, "init", "-q")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "m")
    commit(project)
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "third_party/other")
    git(project, "commit", "-q", "-m", "submodule")
    return project / "third_party" / "other"


def test_files_of_submodules_belong_to_a_commit(project: Path, submodule: Path) -> None:
    files = [*SOURCES, "third_party/other/a.h"]
    assert sources(project, files)[1] == ""
    (submodule / "b.h").touch()
    assert sources(project, files)[1] == ""
    assert sources(project, [*files, "third_party/other/b.h"])[1] == "third_party/other/b.h"
    (submodule / "a.h").write_text("new\n")
    assert sources(project, files)[1] == "third_party/other/a.h"
    git(submodule, "commit", "-q", "-a", "-m", "new")
    assert sources(project, files)[1] == "third_party/other/a.h"
    git(project, "commit", "-q", "-a", "-m", "new")
    assert sources(project, files)[1] == ""


def test_submodules_of_a_commit(project: Path, submodule: Path) -> None:
    (submodule / "a.h").write_text("new\n")
    with checked_out(project, "HEAD") as found:
        assert (found / "third_party" / "other" / "a.h").read_text() == "old\n"
    git(project, "submodule", "--quiet", "deinit", "--force", "third_party/other")
    with checked_out(project, "HEAD") as found:
        assert [*(found / "third_party" / "other").iterdir()] == []


def test_repository_with_sha256(project: Path) -> None:
    commit(project, "--object-format=sha256")
    assert sources(project, SOURCES) == ((git(project, "rev-parse", "HEAD"), False), "")
    (project / INIT).write_text("x = 2\n")
    assert sources(project, SOURCES)[1] == INIT


def test_without_a_commit_everything_is_new(project: Path) -> None:
    git(project, "init", "-q")
    assert sources(project, SOURCES) == (("", True), "build.toml")


@pytest.mark.parametrize("content", [FILES["weights.bin"], b"other", bytes(len(FILES["weights.bin"]))])
def test_large_file_storage_is_compared_by_its_pointer(project: Path, content: bytes) -> None:
    """As `git lfs` leaves it: the commit has a pointer, the directory the file."""
    large = FILES["weights.bin"]
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(large).hexdigest()}\n"
    (project / WEIGHTS).write_text(f"{pointer}size {len(large)}\n")
    commit(project)
    (project / WEIGHTS).write_bytes(content)
    assert sources(project, SOURCES)[1] == ("" if content == large else WEIGHTS)


def test_other_ends_of_lines_are_a_change(project: Path) -> None:
    (project / ".gitattributes").write_text("*.py text eol=crlf\n")
    commit(project)
    git(project, "add", ".gitattributes")
    git(project, "commit", "-q", "-m", "attributes")
    (project / INIT).unlink()
    git(project, "checkout", INIT)
    assert (project / INIT).read_bytes() == b"x = 1\r\n"
    assert sources(project, SOURCES)[1] == INIT
