"""`driver cache`: a real cache is emptied, Bazel's server ended, and a build makes what it needs from the archives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clone import CPU, PROJECTS, Driver, action_counts, copy_project

from py_driver.debian.provide import place_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def _listed(driver: Driver, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401  (JSON)
    return json.loads(driver.run("cache", *arguments, "--json", code=code).stdout)


def _server(output: Path) -> int:
    [file] = output.glob("*/server/server.pid.txt")
    return int(file.read_text(encoding="ascii"))


def _alive(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked about has no command any more."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def test_what_goes_is_made_again(clone: Driver, tmp_path: Path) -> None:
    bazel = {"RULES_TORCH_KERNELS_BAZEL": str(place_of(clone.cache) / "bazel")}
    own = replace(clone, cache=tmp_path / "cache", output=tmp_path / "output", environ={**clone.environ, **bazel})
    project = copy_project(PROJECTS / "tiny", tmp_path / "project")
    first = own.build(project, CPU)
    parts = {part["name"]: part for part in _listed(own, "info")["parts"]}
    assert {name for name, part in parts.items() if part["clean"]["paths"]} == {"results", "output", "workspaces"}
    assert parts["archives"]["prune"]["paths"] == []
    process = _server(own.output)
    assert _alive(process)
    assert _listed(own, "prune")["freed"] == 0
    made = sum(part["clean"]["bytes"] for part in parts.values())
    assert 0.8 * made < _listed(own, "clean")["freed"] < 1.2 * made
    assert not _alive(process)
    left = {part["name"]: part["bytes"] for part in _listed(own, "info")["parts"]}
    assert left["archives"] == parts["archives"]["bytes"]
    assert left["results"] + left["output"] + left["workspaces"] < 10_000, "empty directories"
    again = replace(own, environ={**own.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}).build(project, CPU)
    assert action_counts(again) == action_counts(first)
    assert action_counts(again)[0] > 0
