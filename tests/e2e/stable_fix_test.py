"""`driver stable --fix --build`: a project rewritten, built, compared with what it was, and its tests run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, copy_project

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_OPTIONS = ("--fix", "--build", "--force", "--torch=2.13", "--json")


def test_a_project_is_rewritten_built_and_tested(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "portable", base / "portable")
    done = clone.run("stable", project, *_OPTIONS)
    result = json.loads(done.stdout)
    assert (result["left"], result["refused"], result["undone"], result["since"]) == ([], {}, {}, "2.10")
    assert sorted(path.rsplit("/", 1)[-1] for path in result["written"]) == [
        "build.toml",
        "portable.cpp",
        "portable.h",
        "torch_binding.cpp",
    ]
    assert 'stable-abi = "2.10"' in (project / "build.toml").read_text()
    assert "9 passed" in done.stderr
    [variant] = (project / ".dev").glob("*/torch-stable-abi210-cpu-*")
    assert [*variant.glob("*.so")]


def test_what_differs_is_undone(clone: Driver, base: Path) -> None:
    """A test that fails with the rewritten sources alone stands for all that nobody foresees."""
    project = copy_project(PROJECTS / "portable", base / "portable-undone")
    test = project / "tests" / "test_portable.py"
    test.write_text(
        "import portable\n\n\ndef test_which():\n    assert 'stable' not in portable.__file__\n", encoding="utf-8"
    )
    old = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    done = clone.run("stable", project, *_OPTIONS, code=1)
    assert json.loads(done.stdout)["undone"] == {str(project): "its tests fail: exit code 1"}
    assert json.loads(done.stdout)["written"] == []
    assert {path: path.read_bytes() for path in old} == old
