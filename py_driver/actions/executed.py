"""What the compile steps of a build did, cell by cell: run, shared with another cell, or taken from a cache."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from py_driver.actions.phases import phases, way_of
from py_driver.bazel.spawns import read_spawns
from py_driver.matrix.backends import BUILT, TOOLKITS, owner_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from py_driver.bazel.events import Events
    from py_driver.bazel.spawns import Spawn

_PHASE = re.compile(r"(.+)\.phases/(?:(\w+)/)?([^/]+)", re.DOTALL)
"""The path of what a step makes that is not the last one of a source."""


class Did(StrEnum):
    """What a compile step did for a cell.

    Attributes:
        RUN: it ran for this cell, in this build.
        SHARED: another cell of this build has the very same step, or one with the same command and inputs.
        CACHED: its result was there before: from the last build, or from a cache.
    """

    RUN = "run"
    SHARED = "shared"
    CACHED = "cached"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSteps:
    """The compile steps of one cell.

    Attributes:
        variant: the cell's identifier.
        directory: where Bazel put the variant, relative to the execution root.
        run: steps that ran for this cell, in this build.
        shared: steps that another cell of this build has too; it ran for that one, or was counted there.
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
class CellStep:
    """One compile step, as one cell has it.

    Attributes:
        variant: the cell's identifier.
        path: of its first output, relative to the execution root.
        key: equal for steps with the same command and inputs, as far as this build tells.
        did: what it did for this cell.
        seconds: how long it ran for this cell; 0 if it did not.
        spawn: its process; None if Bazel started none, as for a step that was up to date.
    """

    variant: str
    path: str
    key: str
    did: Did
    seconds: float
    spawn: Spawn | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a step compiles.

    Attributes:
        source: path of the file that it compiles, within the project.
        section: the target that it belongs to, which has the name of a section of build.toml.
        mnemonic: which action it is.
        arch: `sm_80`, `gfx942`; None if it is not for a single architecture.
    """

    source: str
    section: str
    mnemonic: str
    arch: str | None


def trace_steps(
    records: Iterable[Any], completed: Mapping[str, tuple[str, ...]], spawns: Iterable[Spawn]
) -> list[CellStep]:
    """What each step did for each cell that has it.

    Args:
        records: one for each cell, as kernel_variant writes them: `variant`, `directory` and `steps`, the first outputs
            of the actions that make the objects it links.
        completed: the actions that were not up to date, by their first output.
        spawns: the processes of the build.

    Returns:
        The steps of the first cell, those of the second, and so on, in the order of the records.
    """
    made: dict[str, Spawn] = {}
    for spawn in spawns:
        for path in spawn.outputs:
            # Of a build that was tried again, a process that ran may be found in a cache after that.
            if spawn.seconds is not None or path not in made:
                made[path] = spawn
    ran = {spawn.key for spawn in made.values() if spawn.key and spawn.seconds is not None}
    seen: set[str] = set()
    traced = []
    for record in records:
        for path in record["steps"]:
            own = made.get(path)
            key = (own.key if own else "") or path
            seconds = own.seconds if own else 0.0 if path in completed else None
            did = Did.CACHED if seconds is None else Did.RUN
            if path in seen or (seconds is None and (key in ran or key in seen)):
                did, seconds = Did.SHARED, None
            seen |= {path, key}
            step = CellStep(variant=record["variant"], path=path, key=key, did=did, seconds=seconds or 0.0, spawn=own)
            traced.append(step)
    return traced


def count_steps(records: Iterable[Any], steps: Iterable[CellStep]) -> list[CellSteps]:
    """Count the compile steps of each cell.

    Args:
        records: see `trace_steps`.
        steps: what it makes of them.

    Returns:
        One result for each cell, in the order of the records.
    """
    by_cell: dict[str, list[CellStep]] = {}
    for step in steps:
        by_cell.setdefault(step.variant, []).append(step)
    counted = []
    for record in records:
        own = by_cell.get(record["variant"], [])
        counts = Counter(step.did for step in own)
        counted.append(
            CellSteps(
                variant=record["variant"],
                directory=record["directory"],
                run=counts[Did.RUN],
                shared=counts[Did.SHARED],
                cached=counts[Did.CACHED],
                seconds=sum(step.seconds for step in own),
            )
        )
    return counted


def place_of(step: CellStep, directory: str, paths: Container[str]) -> Place:
    """What a step compiles; a step that was up to date says so by the path of its output alone.

    Args:
        step: of a cell.
        directory: of that cell, beside which Bazel puts what it is made of.
        paths: of the first outputs of all steps: an object that has phases among them is made by the last of these.
    """
    package = directory.partition("/bin/")[2].rpartition("/")[0]
    path = step.path.partition("/bin/")[2].removeprefix(f"{package}/" if package else "")
    section, _, rest = path.partition(".objects/")
    made = {file: mnemonic for mnemonic, phase in phases().items() for file in phase.makes.values()}
    if (found := _PHASE.fullmatch(rest)) and found[3] in made:
        source, arch, mnemonic = found[1], found[2], made[found[3]]
    else:
        source, arch = rest.removesuffix(".o"), None
        begun = (made[file] for file in made if f"{step.path.removesuffix('.o')}.phases/{file}" in paths)
        whole = [way_of(source, owner_of(source) or BUILT["cpu"], whole=True)]
        ways = set(next((phases()[one].ways for one in begun), whole))
        mnemonic = next(one for one, phase in phases().items() if ways.intersection(phase.ways) and not phase.makes)
    named = step.spawn.mnemonic if step.spawn else ""
    backend = next((one for one in TOOLKITS if arch and phases()[mnemonic].ways[0].startswith(one.way)), None)
    return Place(
        source=source,
        section=section,
        mnemonic=named or mnemonic,
        arch=backend.arch_of_directory(arch) if backend and arch else None,
    )


def places_of(cells: Iterable[CellSteps], steps: Sequence[CellStep]) -> list[tuple[Place, CellStep]]:
    """Steps, each with what it compiles.

    Args:
        cells: of the build.
        steps: of all these.
    """
    paths = {step.path for step in steps}
    directories = {cell.variant: cell.directory for cell in cells}
    return [(place_of(step, directories[step.variant], paths), step) for step in steps]


def read_steps(files: Sequence[Path], order: Sequence[str]) -> list[Any]:
    """The records that kernel_variant wrote, in a given order of variants.

    Args:
        files: of the output group `steps`.
        order: identifiers of the variants.
    """
    records = {record["variant"]: record for record in (json.loads(f.read_text(encoding="utf-8")) for f in files)}
    return [records[name] for name in order if name in records]


def read_records(files: Sequence[Path]) -> dict[str, Any]:
    """The records that kernel_variant wrote, by label: the directory of a variant says which package it is of.

    Args:
        files: of the output group `steps`; of a variant that failed there may be none.
    """
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    packages = (one["directory"].partition("/bin/")[2].rpartition("/")[0] for one in records)
    return {f"//{package}:{one['variant']}": one for package, one in zip(packages, records, strict=True)}


def cells_of(
    events: Events, order: Sequence[str], log: Path, *, calls: bool = False
) -> tuple[list[CellSteps], list[CellStep]]:
    """The steps of a build that ended: counted for each cell, and one by one.

    Args:
        events: of the build.
        order: identifiers of the variants.
        log: its execution log.
        calls: whether to tell how processes are called.
    """
    records = read_steps(events.groups.get("steps", ()), order)
    steps = trace_steps(records, events.completed, read_spawns(log, calls=calls))
    return count_steps(records, steps), steps
