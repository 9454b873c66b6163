"""Counting compile steps: what ran, what cells share, what a cache had; on records as the rules write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py_driver.bazel.events import Events
from py_driver.steps import CellSteps, cells_of, count_steps, read_spawns, read_steps

if TYPE_CHECKING:
    from pathlib import Path


def _record(variant: str, *steps: str) -> dict[str, Any]:
    return {"variant": variant, "directory": f"bazel-out/{variant}", "steps": list(steps)}


def _counts(cells: list[CellSteps]) -> list[tuple[int, int, int]]:
    return [(cell.run, cell.shared, cell.cached) for cell in cells]


ONE, TWO = "bazel-out/k8-ST-1/bin/p/a.o", "bazel-out/k8-ST-2/bin/p/a.o"


def test_step_that_ran_counts_for_the_first_cell_that_has_it() -> None:
    records = [_record("a", ONE), _record("b", ONE, TWO)]
    done = frozenset({ONE, TWO})
    spawns = [("bazel-out/cfg/bin/p/a.o", False), ("bazel-out/cfg/bin/p/a.o", False)]
    assert _counts(count_steps(records, done, spawns)) == [(1, 0, 0), (1, 1, 0)]


def test_step_that_is_up_to_date_is_cached() -> None:
    assert _counts(count_steps([_record("a", ONE)], frozenset(), [])) == [(0, 0, 1)]


def test_step_that_a_cache_had_is_cached() -> None:
    assert _counts(count_steps([_record("a", ONE)], frozenset({ONE}), [(ONE, True)])) == [(0, 0, 1)]


def test_steps_with_one_masked_path_run_once() -> None:
    records = [_record("a", ONE), _record("b", TWO)]
    spawns = [("bazel-out/cfg/bin/p/a.o", True), ("bazel-out/cfg/bin/p/a.o", False)]
    assert _counts(count_steps(records, frozenset({ONE, TWO}), spawns)) == [(1, 0, 0), (0, 0, 1)]


def test_completed_step_without_a_record_of_its_process_ran() -> None:
    assert _counts(count_steps([_record("a", ONE)], frozenset({ONE}), [])) == [(1, 0, 0)]


def test_cell_without_steps() -> None:
    [cell] = count_steps([_record("torch-universal")], frozenset(), [])
    assert cell == CellSteps(
        variant="torch-universal", directory="bazel-out/torch-universal", run=0, shared=0, cached=0
    )


def test_spawns_are_read_from_objects_one_after_another(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    spawns = [{"listedOutputs": ["x", "y"], "cacheHit": True}, {"listedOutputs": ["z"]}, {"listedOutputs": []}]
    log.write_text("\n".join(json.dumps(spawn, indent=2) for spawn in spawns))
    assert list(read_spawns(log)) == [("x", True), ("z", False), ("", False)]
    assert list(read_spawns(tmp_path / "missing.json")) == []


def test_records_come_in_the_order_of_the_variants(tmp_path: Path) -> None:
    files = []
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text(json.dumps(_record(name)))
        files.append(tmp_path / name)
    assert [record["variant"] for record in read_steps(files, ["a", "b"])] == ["a", "b"]
    log = tmp_path / "log.json"
    log.touch()
    events = Events(groups={"steps": tuple(files)})
    assert [cell.variant for cell in cells_of(events, ["c", "a", "b"], log)] == ["c", "a", "b"]
