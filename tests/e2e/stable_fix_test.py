"""`driver stable --fix --build`: a project rewritten, built against two releases, compared, and its tests run."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, copy_project

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_OPTIONS = ("--fix", "--build", "--force", "--torch=2.13", "--json")
_BUILT: dict[str, list[str]] = {"torch": ["2.10", "2.15"], "tested": ["2.13"], "failed": []}
_TEST = """\
import portable
import pytest
import torch


def test_message():
    with pytest.raises(RuntimeError) as caught:
        portable.scaled(torch.ones(2, 3), bias=torch.ones(3))
    assert str(caught.value).startswith("`bias`")
"""
"""A test that fails with the rewritten sources alone: their messages begin with the function, the file and the line."""


def test_a_project_is_rewritten_built_and_tested(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "portable", base / "portable")
    done = clone.run("stable", project, *_OPTIONS)
    result = json.loads(done.stdout)
    assert (result["left"], result["refused"], result["undone"], result["since"]) == ([], {}, {}, "2.10")
    assert result["built"] == {str(project): _BUILT}
    assert sorted(path.rsplit("/", 1)[-1] for path in result["written"]) == [
        "build.toml",
        "portable.cpp",
        "portable.h",
        "torch_binding.cpp",
    ]
    assert 'stable-abi = "2.10"' in (project / "build.toml").read_text()
    assert "9 passed" in done.stderr
    # One compiled against each of the two releases.
    assert len([*(project / ".dev").glob("*/torch-stable-abi210-cpu-*/*.so")]) == 3


def test_a_project_with_a_setup_py(clone: Driver, base: Path) -> None:
    project = base / "portable-ext"
    shutil.copytree(PROJECTS / "portable_ext", project)
    for name in ("portable.cpp", "portable.h"):
        shutil.copyfile(PROJECTS / "portable" / "csrc" / name, project / "csrc" / name)
    done = clone.run("stable", project, *_OPTIONS)
    result = json.loads(done.stdout)
    assert (result["left"], result["refused"], result["undone"]) == ([], {}, {})
    assert result["built"] == {str(project): _BUILT}
    assert "STABLE_TORCH_LIBRARY(portable_ext, ops)" in (project / "csrc" / "ops.cpp").read_text()
    assert "1 passed" in done.stderr


def test_what_differs_is_undone(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "portable", base / "portable-undone")
    (project / "tests" / "test_portable.py").write_text(_TEST, encoding="utf-8")
    old = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert "1 passed" in clone.run("test", project, "--torch=2.13").stdout
    done = clone.run("stable", project, *_OPTIONS, code=1)
    assert json.loads(done.stdout)["undone"] == {str(project): "its tests fail with torch 2.13: exit code 1"}
    assert (json.loads(done.stdout)["written"], json.loads(done.stdout)["built"]) == ([], {})
    assert {path: path.read_bytes() for path in old} == old


@pytest.mark.parametrize("breaks", [False, True], ids=["no test more fails", "another test fails"])
def test_a_test_that_failed_before_does_not_count(clone: Driver, base: Path, breaks: bool) -> None:  # noqa: FBT001  (a parameter)
    project = copy_project(PROJECTS / "portable", base / f"portable-failing-{breaks}")
    text = (_TEST if breaks else "") + "\n\ndef test_wrong():\n    assert False\n"
    (project / "tests" / "test_portable.py").write_text(text.lstrip(), encoding="utf-8")
    done = clone.run("stable", project, *_OPTIONS, code=int(breaks))
    result = json.loads(done.stdout)
    where = "tests.test_portable.test_"
    built = {str(project): {**_BUILT, "failed": [f"{where}wrong"]}}
    why = f"its tests fail with torch 2.13 where they did not before: {where}message"
    assert (result["built"], result["undone"]) == (({}, {str(project): why}) if breaks else (built, {}))
    assert ("torch::stable" in (project / "csrc" / "portable.cpp").read_text()) is not breaks
