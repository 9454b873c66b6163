"""What the compile steps of a build did, cell by cell: run, shared with another cell, or taken from a cache."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.bazel.events import Events


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSteps:
    """The compile steps of one cell.

    Attributes:
        variant: the cell's identifier.
        directory: where Bazel put the variant, relative to the execution root.
        run: steps that ran for this cell, in this build.
        shared: steps that a cell before it in the list has too.
        cached: steps whose result was there already: from the last build or from a cache.
        seconds: what the steps that ran took, added up.
    """

    variant: str
    directory: str
    run: int
    shared: int
    cached: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Spawn:
    """A process that Bazel was to run.

    Attributes:
        command: its arguments.
        seconds: how long it ran; None if a cache had the result.
    """

    command: tuple[str, ...]
    seconds: float | None


def count_steps(
    records: Iterable[Any], completed: Mapping[str, tuple[str, ...]], spawns: Iterable[Spawn]
) -> list[CellSteps]:
    """Count the compile steps of each cell.

    Args:
        records: one for each cell, as kernel_variant writes them: `variant`, `directory` and `steps`, the paths of the
            objects it links.
        completed: the actions that were not up to date: primary output to command.
        spawns: the processes of the build.

    Returns:
        One result for each cell, in the order of the records.
    """
    # Steps that path mapping makes equal have one command: where one of them ran, the others were hits.
    outcomes: dict[tuple[str, ...], list[float | None]] = {}
    for spawn in sorted(spawns, key=lambda spawn: spawn.seconds is None):
        outcomes.setdefault(spawn.command, []).append(spawn.seconds)
    seen: set[str] = set()
    counted = []
    for record in records:
        fresh = [step for step in record["steps"] if step not in seen]
        seen.update(fresh)
        ran = []
        for step in fresh:
            if step in completed:
                known = outcomes.get(completed[step])
                seconds = known.pop(0) if known else 0.0
                ran += [] if seconds is None else [seconds]
        counted.append(
            CellSteps(
                variant=record["variant"],
                directory=record["directory"],
                run=len(ran),
                shared=len(record["steps"]) - len(fresh),
                cached=len(fresh) - len(ran),
                seconds=sum(ran),
            )
        )
    return counted


def read_spawns(path: Path) -> Iterator[Spawn]:
    """The processes in a log of --execution_log_json_file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    decoder = json.JSONDecoder()
    at = 0
    while (at := text.find("{", at)) >= 0:
        spawn, at = decoder.raw_decode(text, at)
        hit = spawn.get("cacheHit", False)
        seconds = float(spawn.get("metrics", {}).get("totalTime", "0s").removesuffix("s"))
        yield Spawn(command=tuple(spawn.get("commandArgs", [])), seconds=None if hit else seconds)


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
