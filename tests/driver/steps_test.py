"""Counting compile steps: what ran, what cells share, what a cache had; on records as the rules write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py_driver.bazel.events import Events
from py_driver.steps import CellSteps, Spawn, cells_of, count_steps, read_spawns, read_steps

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = "bazel-out/k8-ST-1/bin/p/a.o", "bazel-out/k8-ST-2/bin/p/a.o"
NVCC_130, NVCC_132 = ("cuda_13_0/nvcc", "a.cu"), ("cuda_13_2/nvcc", "a.cu")


def _record(variant: str, *steps: str) -> dict[str, Any]:
    return {"variant": variant, "directory": f"bazel-out/{variant}", "steps": list(steps)}


def _ran(command: tuple[str, ...], seconds: float = 1.0) -> Spawn:
    return Spawn(command=command, seconds=seconds)


def _hit(command: tuple[str, ...]) -> Spawn:
    return Spawn(command=command, seconds=None)


def _counts(cells: list[CellSteps]) -> list[tuple[int, int, int]]:
    return [(cell.run, cell.shared, cell.cached) for cell in cells]


def test_step_that_ran_counts_for_the_first_cell_that_has_it() -> None:
    records = [_record("a", ONE), _record("b", ONE, TWO)]
    cells = count_steps(records, {ONE: NVCC_130, TWO: NVCC_132}, [_ran(NVCC_132, 2.0), _ran(NVCC_130, 5.0)])
    assert _counts(cells) == [(1, 0, 0), (1, 1, 0)]
    assert [cell.seconds for cell in cells] == [5.0, 2.0]


def test_step_that_is_up_to_date_is_cached() -> None:
    [cell] = count_steps([_record("a", ONE)], {}, [])
    assert _counts([cell]) == [(0, 0, 1)]
    assert cell.seconds == 0.0


def test_step_that_a_cache_had_is_cached() -> None:
    records = [_record("a", ONE), _record("b", TWO)]
    cells = count_steps(records, {ONE: NVCC_130, TWO: NVCC_132}, [_hit(NVCC_130), _ran(NVCC_132)])
    assert _counts(cells) == [(0, 0, 1), (1, 0, 0)]


def test_steps_that_path_mapping_makes_equal_run_once() -> None:
    records = [_record("a", ONE), _record("b", TWO)]
    cells = count_steps(records, {ONE: NVCC_130, TWO: NVCC_130}, [_hit(NVCC_130), _ran(NVCC_130)])
    assert _counts(cells) == [(1, 0, 0), (0, 0, 1)]


def test_completed_step_without_a_record_of_its_process_ran() -> None:
    assert _counts(count_steps([_record("a", ONE)], {ONE: NVCC_130}, [])) == [(1, 0, 0)]


def test_cell_without_steps() -> None:
    [cell] = count_steps([_record("torch-universal")], {}, [])
    assert _counts([cell]) == [(0, 0, 0)]
    assert (cell.variant, cell.directory) == ("torch-universal", "bazel-out/torch-universal")


def test_spawns_are_read_from_objects_one_after_another(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    spawns = [
        {"commandArgs": ["x", "{"], "cacheHit": True, "metrics": {"totalTime": "3s"}},
        {"commandArgs": ["y"], "cacheHit": False, "metrics": {"totalTime": "1.25s"}},
        {},
    ]
    log.write_text("\n".join(json.dumps(spawn, indent=2) for spawn in spawns))
    assert list(read_spawns(log)) == [_hit(("x", "{")), _ran(("y",), 1.25), _ran((), 0.0)]
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
