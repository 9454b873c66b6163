"""What the compile steps of a build did, cell by cell: run, shared with another cell, or taken from a cache."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from py_driver.bazel.events import Events

_CONFIGURATION = re.compile(r"^bazel-out/[^/]+/")


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSteps:
    """The compile steps of one cell.

    Attributes:
        variant: the cell's identifier.
        directory: where Bazel put the variant, relative to the execution root.
        run: steps that ran for this cell, in this build.
        shared: steps that a cell before it in the list has too.
        cached: steps whose result was there already: from the last build or from a cache.
    """

    variant: str
    directory: str
    run: int
    shared: int
    cached: int


def count_steps(
    records: Iterable[Any], completed: frozenset[str], spawns: Iterable[tuple[str, bool]]
) -> list[CellSteps]:
    """Count the compile steps of each cell.

    Args:
        records: one for each cell, as kernel_variant writes them: `variant`, `directory` and `steps`, the paths of the
            objects it links.
        completed: primary outputs of the actions that were not up to date.
        spawns: for each process that was to be run, its output with the configuration masked by path mapping, and
            whether a cache had the result.

    Returns:
        One result for each cell, in the order of the records.
    """
    # Steps that path mapping makes equal have one masked path: where one of them ran, the others were hits.
    hits: dict[str, list[bool]] = {}
    for path, hit in sorted(spawns, key=lambda spawn: spawn[1]):
        hits.setdefault(_masked(path), []).append(hit)
    seen: set[str] = set()
    counted = []
    for record in records:
        fresh = [step for step in record["steps"] if step not in seen]
        run = 0
        for step in fresh:
            if step in completed:
                outcomes = hits.get(_masked(step))
                run += not (outcomes and outcomes.pop(0))
        seen.update(fresh)
        counted.append(
            CellSteps(
                variant=record["variant"],
                directory=record["directory"],
                run=run,
                shared=len(record["steps"]) - len(fresh),
                cached=len(fresh) - run,
            )
        )
    return counted


def _masked(path: str) -> str:
    return _CONFIGURATION.sub("bazel-out/cfg/", path)


def read_spawns(path: Path) -> Iterator[tuple[str, bool]]:
    """The first output and whether a cache had it, of each process in a log of --execution_log_json_file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    decoder = json.JSONDecoder()
    at = 0
    while (at := text.find("{", at)) >= 0:
        spawn, at = decoder.raw_decode(text, at)
        outputs = spawn.get("listedOutputs") or [""]
        yield outputs[0], bool(spawn.get("cacheHit", False))


def read_steps(files: Sequence[Path], order: Sequence[str]) -> list[Any]:
    """The records that kernel_variant wrote, in a given order of variants.

    Args:
        files: of the output group `steps`.
        order: identifiers of the variants.
    """
    records = {record["variant"]: record for record in (json.loads(f.read_text(encoding="utf-8")) for f in files)}
    return [records[name] for name in order if name in records]


def cells_of(events: Events, order: Sequence[str], log: Path) -> list[CellSteps]:
    """Count the steps of a build that ended.

    Args:
        events: of the build.
        order: identifiers of the variants.
        log: its execution log.
    """
    return count_steps(read_steps(events.groups.get("steps", ()), order), events.completed, read_spawns(log))
