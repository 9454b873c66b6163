"""`driver release-check` against a Hub: the table comes also where a step fails, and the card has what changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tuned import FILES, ROOT, build, environment, publish

from py_driver.publishing.release_record import recorded_changes

if TYPE_CHECKING:
    from pathlib import Path

    from hub import Hub

_OLD = b"def tune(x: int = 3) -> None: ...\ndef same() -> None: ...\ndef lost() -> None: ...\n"
_NEW = b"def tune(y: int) -> None: ...\ndef same() -> None: ...\ndef fresh(x: int) -> None: ...\n"


def _committed(project: Path, package: bytes) -> None:
    """The project with a package, committed in a repository of its own, and built."""
    shutil.rmtree(project / ".git", ignore_errors=True)
    (project / "torch-ext" / "tuned" / "__init__.py").write_bytes(package)
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    for command in (["init", "-q"], ["add", "build.toml", "torch-ext"], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *command], check=True)
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES | {"__init__.py": package})


def _driver(hub: Hub, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "py_driver", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment(hub, project), capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def checked(hub: Hub, project: Path) -> subprocess.CompletedProcess[str]:
    """The check of a project whose repository does not have the commit that the Hub names."""
    _committed(project, _OLD)
    publish(hub, project)
    _committed(project, _NEW)
    return _driver(hub, project, "release-check", str(project), "--json")


def test_a_commit_that_is_not_here_fails_after_the_table(checked: subprocess.CompletedProcess[str]) -> None:
    steps = {step["name"]: (step["verdict"], step["code"]) for step in json.loads(checked.stdout)["steps"]}
    assert list(steps) == ["what callers use", "tests", "tests of the last release", "benchmarks"]
    assert steps["what callers use"] == ("something breaks callers, without a new major version", 1)
    assert steps["tests of the last release"] == steps["benchmarks"] == ("failed: E200", 2)
    assert checked.returncode == 1
    assert "error[E200]: git has no commit `" in checked.stderr


def test_the_card_has_what_changed(
    checked: subprocess.CompletedProcess[str], hub: Hub, project: Path, tmp_path: Path
) -> None:
    assert checked.returncode == 1
    card = _driver(hub, project, "card", str(project)).stdout
    section = card.split("## Changes since version 3\n\n")[1].split("\n\n## Variants")[0]
    assert section.splitlines() == [
        "- function `tune`: `tune(y: int) -> None` instead of `tune(x: int=3) -> None`. Breaks callers: "
        "`x` is removed; `y` is new and required",
        "- function `lost`: removed. Breaks callers: it is removed",
        "- function `fresh`: new",
    ]
    changes = json.loads(_driver(hub, project, "card", str(project), "--json").stdout)["changes"]
    assert [change["subject"] for change in changes] == ["tune", "lost", "fresh"]
    page = tmp_path / "page.html"
    assert _driver(hub, project, "card", str(project), "--html", str(page)).returncode == 0


def test_a_record_of_another_build_is_not_on_the_card(
    checked: subprocess.CompletedProcess[str], hub: Hub, project: Path
) -> None:
    assert checked.returncode == 1
    _committed(project, _OLD)
    assert "## Changes" not in _driver(hub, project, "card", str(project)).stdout
    (project / ".dev" / "release-changes.json").write_text("[1]")
    assert recorded_changes(project, {}) is None
