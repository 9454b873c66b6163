"""Where a project is built: in the repository, or as a package of the shared workspace that holds what it names."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver.actions import workspace
from py_driver.actions.workspace import Workspace, is_busy, one_at_a_time, workspace_for
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.plan.plan import plan_directory
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
TINY = ROOT / "tests" / "e2e" / "projects" / "tiny"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "some where" / "tiny"))


def _workspace(project: Path) -> Workspace:
    return workspace_for(project, plan_directory(project, Releases()), Releases())


def _files(directory: Path) -> dict[str, int]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.stat().st_ino for path in files}


def test_project_of_the_repository_is_built_there(cache: Path) -> None:
    workspace = _workspace(ROOT / "examples" / "relu")
    assert workspace == Workspace(root=ROOT, package="examples/relu")
    assert workspace.label("all_variants") == "//examples/relu:all_variants"
    assert not cache.exists()


def test_package_holds_the_named_files_and_nothing_else(cache: Path, project: Path) -> None:
    (project / "notes.txt").write_text("not named")
    workspace = _workspace(project)
    package = workspace.root / workspace.package
    named = ["csrc/one.cpp", "csrc/one.h", "csrc/two.cu", "torch-ext/binding.cpp", "torch-ext/tiny/__init__.py"]
    assert sorted(_files(package)) == sorted(["BUILD.bazel", *named])
    assert "@rules_torch_kernels//rules:defs.bzl" in (package / "BUILD.bazel").read_text()
    assert package.is_relative_to(cache / "workspaces")
    assert not (project / "BUILD.bazel").exists()


def test_module_names_the_rules_by_their_path(cache: Path, project: Path) -> None:
    workspace = _workspace(project)
    assert workspace.root.is_relative_to(cache)
    assert f"path = {json.dumps(str(ROOT))}" in (workspace.root / "MODULE.bazel").read_text()
    for name in (".bazelrc", ".bazelversion"):
        assert (workspace.root / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.usefixtures("cache")
def test_second_time_writes_nothing(project: Path) -> None:
    first = _workspace(project)
    before = _files(first.root)
    assert _workspace(project) == first
    assert _files(first.root) == before


def _remove(project: Path) -> None:
    (project / "csrc" / "one.h").unlink()
    manifest = project / "build.toml"
    manifest.write_text(manifest.read_text().replace(', "csrc/one.h"', ""))


def _touch(project: Path) -> None:
    (project / "csrc" / "one.h").write_text("// other\n")


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("change", [_remove, _touch])
def test_package_follows_the_project(project: Path, change: Callable[[Path], None]) -> None:
    workspace = _workspace(project)
    header = workspace.root / workspace.package / "csrc" / "one.h"
    assert header.is_file()
    change(project)
    _workspace(project)
    expected = (project / "csrc" / "one.h").read_text() if (project / "csrc" / "one.h").exists() else None
    assert (header.read_text() if header.exists() else None) == expected


@pytest.mark.usefixtures("cache")
def test_second_checkout_of_a_project_has_its_package(project: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(project, tmp_path / "other"))
    first = _workspace(project)
    before = _files(first.root)
    assert _workspace(other) == first == Workspace(root=first.root, package="projects/tiny")
    assert _files(first.root) == before


def test_cache_that_cannot_be_written_is_an_error(cache: Path, project: Path) -> None:
    cache.write_text("a file, not a directory")
    with pytest.raises(DriverError) as caught:
        _workspace(project)
    assert caught.value.diagnostics[0].code is Code.PERMISSION


@pytest.mark.usefixtures("cache")
def test_second_build_of_a_project_waits_for_the_first(project: Path) -> None:
    said = io.StringIO()
    order = []
    plan = plan_directory(project, Releases())

    def second() -> None:
        with one_at_a_time(project, plan, Output(err=said)):
            order.append("second")

    thread = threading.Thread(target=second)
    assert not is_busy(project, plan)
    with one_at_a_time(project, plan, Output(err=io.StringIO())):
        assert is_busy(project, plan)
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive()
        order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "second"]
    assert re.fullmatch(r"tiny is in use; waiting for `.*` \(process \d+, for \d s\)\.\n", said.getvalue())


@pytest.mark.usefixtures("cache")
def test_two_checkouts_of_a_project_need_not_wait(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have one place in the workspace, so one of them is built in a copy of that, if there is memory."""
    monkeypatch.setattr(workspace, "builds_at_once", lambda: 2)
    others = [Path(shutil.copytree(project, tmp_path / name / "tiny")) for name in ("b", "c")]
    plan, output = plan_directory(project, Releases()), Output(err=io.StringIO())
    with one_at_a_time(project, plan, output) as first:
        assert not is_busy(others[0], plan)
        with one_at_a_time(others[0], plan, output) as second:
            assert (first, second) == (0, 1)
            here, there = (
                workspace_for(directory, plan, Releases(), copy)
                for directory, copy in ((project, first), (others[0], second))
            )
            assert here.package == there.package
            assert here.root != there.root
            assert _files(here.root).keys() == _files(there.root).keys()
            assert is_busy(others[1], plan)
        assert is_busy(project, plan)
        assert not is_busy(others[1], plan)
    with one_at_a_time(others[1], plan, output) as third:
        assert third == 0


@pytest.mark.usefixtures("cache")
def test_builds_of_a_project_keep_their_order(project: Path) -> None:
    plan = plan_directory(project, Releases())
    order: list[int] = []
    said = [io.StringIO() for _ in range(12)]

    def build(number: int) -> None:
        with one_at_a_time(project, plan, Output(err=said[number])):
            order.append(number)
            time.sleep(0.05)

    threads = [threading.Thread(target=build, args=[number]) for number in range(len(said))]
    with one_at_a_time(project, plan, Output(err=io.StringIO())):
        for thread, err in zip(threads, said, strict=True):
            thread.start()
            while "waiting" not in err.getvalue():
                time.sleep(0.01)
    for thread in threads:
        thread.join(timeout=30)
    assert order == sorted(order)
    assert said[-1].getvalue().splitlines()[0].endswith("; 11 wait before this one.")
