"""`driver publish` of several projects: one that fails stops no other, and the table says what came of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hub import Fault, Hub
from tuned import MANIFEST, copied, publish, rename

if TYPE_CHECKING:
    from pathlib import Path


def table(text: str) -> dict[tuple[str, str], list[str]]:
    """The rows of a table by project and branch."""
    head, *rows = [line.split(maxsplit=6) for line in text.splitlines()]
    assert head == ["project", "repository", "branch", "added", "deleted", "same", "outcome"]
    return {(row[0], row[2]): [row[1], *row[3:]] for row in rows}


def variants(hub: Hub, repository: str) -> set[str]:
    """The variants that the Hub has."""
    found = hub.repositories[repository].files("v3") if repository in hub.repositories else None
    return {path.split("/")[1] for path in found or {} if path.startswith("build/")}


@pytest.fixture
def two(project: Path) -> tuple[Path, Path]:
    other = copied(project, "other")
    rename(other, "other")
    return project, other


def test_one_that_fails_stops_no_other(hub: Hub, two: tuple[Path, Path]) -> None:
    project, other = two
    spoiled = copied(project, "spoiled")
    (spoiled / "build" / "torch-cpu" / "__init__.py").write_text("import os\n")
    hub.faults.append(Fault(what="POST commit/v3", status=500))
    done = publish(hub, project, str(spoiled), str(other), code=4)
    rows = table(done.stdout)
    assert rows.pop((str(other), "v3"))[0] == "me/other"
    assert rows == {
        (str(project), "-"): ["-", "-", "-", "-", "failed: E310"],
        (str(spoiled), "-"): ["-", "-", "-", "-", "failed: E404"],
        (str(other), "main"): ["me/other", "1", "0", "0", "changed"],
    }
    assert done.stderr.splitlines()[-1] == f"3 projects: 1 published, 2 failed ({project}, {spoiled})"
    assert (variants(hub, "me/tuned"), variants(hub, "me/other")) == (set(), {"torch-cpu", "torch-cuda"})
    again = publish(hub, project, str(other))
    assert {key: row[-1] for key, row in table(again.stdout).items()} == {
        (str(project), "v3"): "changed",
        (str(project), "main"): "changed",
        (str(other), "v3"): "up to date",
        (str(other), "main"): "up to date",
    }


def test_what_is_wrong_is_found_before_anything_of_the_project_is_sent(hub: Hub, two: tuple[Path, Path]) -> None:
    project, other = two
    (project / "build" / "torch-cuda" / "metadata.json").unlink()
    publish(hub, project, str(other), code=2)
    assert "me/tuned" not in hub.repositories
    assert variants(hub, "me/other") == {"torch-cpu", "torch-cuda"}


@pytest.mark.parametrize("several", [False, True])
def test_a_card_that_is_not_taken_is_said_with_what_was(hub: Hub, two: tuple[Path, Path], *, several: bool) -> None:
    project, other = two
    hub.faults.append(Fault(what="POST commit/main", status=500))
    done = publish(hub, project, *([str(other)] if several else []), code=4)
    assert "; v3 was published before, main was not" in done.stderr
    assert variants(hub, "me/tuned") == {"torch-cpu", "torch-cuda"}


def test_as_json(hub: Hub, two: tuple[Path, Path]) -> None:
    project, other = two
    (other / "build.toml").write_text("[general\n")
    done = publish(hub, project, str(other), "--json", "--dry-run", code=2)
    good, bad = json.loads(done.stdout)["projects"]
    assert (good["directory"], good["repo-id"], good["dry-run"]) == (str(project), "me/tuned", True)
    assert [branch["branch"] for branch in good["branches"]] == ["v3", "main"]
    assert (bad["directory"], [error["code"] for error in bad["errors"]]) == (str(other), ["E001"])
    assert hub.repositories == {}


def test_one_repository_is_not_for_several(hub: Hub, two: tuple[Path, Path]) -> None:
    done = publish(hub, two[0], str(two[1]), "--repo-id=me/all", code=2)
    assert "error[E200]: --repo-id is for a single project" in done.stderr
    assert hub.repositories == {}


def test_two_projects_of_one_repository(hub: Hub, two: tuple[Path, Path]) -> None:
    project, _ = two
    twin = copied(project, "twin")
    done = publish(hub, project, str(twin), code=2)
    assert table(done.stdout)[str(twin), "-"][-1] == "failed: E107"
    assert f"error[E107]: {project} and {twin} would both be published to v3 of me/tuned" in done.stderr
    assert table(done.stdout)[str(project), "v3"][-1] == "changed"


def test_strict(hub: Hub, two: tuple[Path, Path]) -> None:
    project, other = two
    doubtful = MANIFEST + '\n[kernel.none]\nbackend = "cpu"\ndepends = []\nsrc = ["a.cpp", "a.cpp"]\n'
    (project / "build.toml").write_text(doubtful)
    (project / "a.cpp").touch()
    publish(hub, project, "--dry-run")
    assert "error[E104]: `a.cpp` is listed twice in [kernel.none]" in publish(hub, project, "--strict", code=2).stderr
    assert hub.repositories == {}
    done = publish(hub, project, str(other), "--strict", code=2)
    assert {key: row[-1] for key, row in table(done.stdout).items()} == {
        (str(project), "-"): "failed: E104",
        (str(other), "v3"): "changed",
        (str(other), "main"): "changed",
    }
    assert [*hub.repositories] == ["me/other"]
