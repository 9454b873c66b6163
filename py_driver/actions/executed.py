"""The results of a build's compile actions, by variant: run, shared with another variant, or cached."""

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
"""The path of an output of an action that is not a source's last one."""


class Did(StrEnum):
    """The result of a compile action for a variant.

    Attributes:
        RUN: it ran for this variant, in this build.
        SHARED: another variant of this build has the same action, or one with the same command and inputs.
        CACHED: its result existed before: from the last build, or from a cache.
    """

    RUN = "run"
    SHARED = "shared"
    CACHED = "cached"


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantActions:
    """The compile actions of one variant.

    Attributes:
        variant: the variant's identifier.
        directory: Bazel's directory of the variant, relative to the execution root.
        run: actions that ran for this variant, in this build.
        shared: actions that another variant of this build has too, and for which they are counted.
        cached: actions whose result existed already: from the last build or from a cache.
        seconds: the total duration of the actions that ran.
    """

    variant: str
    directory: str
    run: int
    shared: int
    cached: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantAction:
    """A compile action of a variant.

    Attributes:
        variant: the variant's identifier.
        path: the path of its first output, relative to the execution root.
        key: equal for actions with the same command and inputs, as far as known from this build.
        did: its result for this variant.
        seconds: its duration for this variant; 0 if it did not run.
        spawn: its process; None if Bazel started none, e.g. for an action that was up to date.
    """

    variant: str
    path: str
    key: str
    did: Did
    seconds: float
    spawn: Spawn | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The source, section and architecture of an action.

    Attributes:
        source: the path of the file that it compiles, in the project.
        section: the target that it belongs to, which has the name of a section of build.toml.
        mnemonic: its mnemonic.
        arch: `sm_80`, `gfx942`; None if it is not for a single architecture.
    """

    source: str
    section: str
    mnemonic: str
    arch: str | None


def trace_actions(
    records: Iterable[Any], completed: Mapping[str, tuple[str, ...]], spawns: Iterable[Spawn]
) -> list[VariantAction]:
    """The result of each action for each of its variants.

    Args:
        records: a record for each variant, as kernel_variant writes it: `variant`, `directory` and `steps`, the first
            outputs of the actions that make the objects it links.
        completed: the actions that were not up to date, by their first output.
        spawns: the processes of the build.

    Returns:
        The actions of the first variant, those of the second, and so on, in the order of the records.
    """
    spawn_of: dict[str, Spawn] = {}
    for spawn in spawns:
        for path in spawn.outputs:
            # If a build is retried, the second log may show a process that ran as a cache hit.
            if spawn.seconds is not None or path not in spawn_of:
                spawn_of[path] = spawn
    ran = {spawn.key for spawn in spawn_of.values() if spawn.key and spawn.seconds is not None}
    seen: set[str] = set()
    traced = []
    for record in records:
        for path in record["steps"]:
            own = spawn_of.get(path)
            key = (own.key if own else "") or path
            seconds = own.seconds if own else 0.0 if path in completed else None
            did = Did.CACHED if seconds is None else Did.RUN
            if path in seen or (seconds is None and (key in ran or key in seen)):
                did, seconds = Did.SHARED, None
            seen |= {path, key}
            action = VariantAction(
                variant=record["variant"], path=path, key=key, did=did, seconds=seconds or 0.0, spawn=own
            )
            traced.append(action)
    return traced


def count_actions(records: Iterable[Any], actions: Iterable[VariantAction]) -> list[VariantActions]:
    """Count the compile actions of each variant.

    Args:
        records: see `trace_steps`.
        actions: its result.

    Returns:
        A result for each variant, in the order of the records.
    """
    by_variant: dict[str, list[VariantAction]] = {}
    for action in actions:
        by_variant.setdefault(action.variant, []).append(action)
    counted = []
    for record in records:
        own = by_variant.get(record["variant"], [])
        counts = Counter(action.did for action in own)
        counted.append(
            VariantActions(
                variant=record["variant"],
                directory=record["directory"],
                run=counts[Did.RUN],
                shared=counts[Did.SHARED],
                cached=counts[Did.CACHED],
                seconds=sum(action.seconds for action in own),
            )
        )
    return counted


def place_of(action: VariantAction, directory: str, paths: Container[str]) -> Place:
    """The place of an action, from the path of its output if it was up to date.

    Args:
        action: the action of a variant.
        directory: the directory of the variant, beside which Bazel puts its parts.
        paths: the first outputs of all actions: the last phase makes the object, if there are phases.
    """
    package = directory.partition("/bin/")[2].rpartition("/")[0]
    path = action.path.partition("/bin/")[2].removeprefix(f"{package}/" if package else "")
    section, _, rest = path.partition(".objects/")
    mnemonics = {file: mnemonic for mnemonic, phase in phases().items() for file in phase.makes.values()}
    if (found := _PHASE.fullmatch(rest)) and found[3] in mnemonics:
        source, arch, mnemonic = found[1], found[2], mnemonics[found[3]]
    else:
        source, arch = rest.removesuffix(".o"), None
        begun = (mnemonics[file] for file in mnemonics if f"{action.path.removesuffix('.o')}.phases/{file}" in paths)
        unsplit = [way_of(source, owner_of(source) or BUILT["cpu"], monolithic=True)]
        ways = set(next((phases()[mnemonic].ways for mnemonic in begun), unsplit))
        mnemonic = next(
            mnemonic for mnemonic, phase in phases().items() if ways.intersection(phase.ways) and not phase.makes
        )
    named = action.spawn.mnemonic if action.spawn else ""
    backend = next(
        (backend for backend in TOOLKITS if arch and phases()[mnemonic].ways[0].startswith(backend.way)), None
    )
    return Place(
        source=source,
        section=section,
        mnemonic=named or mnemonic,
        arch=backend.arch_of_directory(arch) if backend and arch else arch,
    )


def places_of(
    variants: Iterable[VariantActions], actions: Sequence[VariantAction]
) -> list[tuple[Place, VariantAction]]:
    """Actions, each with its place.

    Args:
        variants: the variants of the build.
        actions: the actions of all variants.
    """
    paths = {action.path for action in actions}
    directories = {variant.variant: variant.directory for variant in variants}
    return [(place_of(action, directories[action.variant], paths), action) for action in actions]


def read_in_order(files: Sequence[Path], order: Sequence[str]) -> list[Any]:
    """The records that kernel_variant wrote, in an order of variants.

    Args:
        files: the files of the output group `steps`.
        order: the identifiers of the variants.
    """
    records = {record["variant"]: record for record in (json.loads(f.read_text(encoding="utf-8")) for f in files)}
    return [records[name] for name in order if name in records]


def read_records(files: Sequence[Path]) -> dict[str, Any]:
    """The records that kernel_variant wrote, by label: a variant's directory contains its package.

    Args:
        files: the files of the output group `steps`, without those of variants that failed.
    """
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    packages = (record["directory"].partition("/bin/")[2].rpartition("/")[0] for record in records)
    return {f"//{package}:{record['variant']}": record for package, record in zip(packages, records, strict=True)}


def actions_of(
    events: Events, order: Sequence[str], log: Path, *, calls: bool = False
) -> tuple[list[VariantActions], list[VariantAction]]:
    """The actions of a finished build: counted for each variant, and individually.

    Args:
        events: the events of the build.
        order: the identifiers of the variants.
        log: its execution log.
        calls: whether to include the calls of processes.
    """
    records = read_in_order(events.groups.get("steps", ()), order)
    actions = trace_actions(records, events.completed, read_spawns(log, calls=calls))
    return count_actions(records, actions), actions
