"""Builds all candidates in one call of Bazel, with a result for each, independent of the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py_driver.building.batches import placed
from py_driver.building.build import Prepared
from py_driver.building.collect import check_place, collect
from py_driver.building.file_names import true_names
from py_driver.building.session import session
from py_driver.building.variant_dir import BUILD
from py_driver.matrix.lock_update import check_user_lock
from py_driver.output import counted
from py_driver.plan.precompiled import with_precompiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from py_driver.bazel.invocation import Choices
    from py_driver.building.batches import Placed
    from py_driver.building.session import Batch, Outcome
    from py_driver.errors import DriverError
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan
    from py_driver.trials.projects import Trial


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """A built candidate.

    Attributes:
        path: the directory to import from.
        name: the dotted name of the module.
        seconds: the total duration of its actions.
        ran: the number of actions that ran for it.
        notes: its notes.
    """

    path: Path
    name: str
    seconds: float
    ran: int
    notes: Sequence[str] = ()

    @property
    def libraries(self) -> Path:
        """The directory with its library."""
        return self.path / self.name.partition(".")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """The results of candidates.

    Attributes:
        of: the module or the error of each, by key.
        cpu_seconds: the processor time of all actions that ran here.
    """

    of: Mapping[str, Module | DriverError]
    cpu_seconds: float

    @property
    def ran(self) -> int:
        """The number of compile actions that ran for built candidates."""
        return sum(module.ran for module in self.of.values() if isinstance(module, Module))


def build_trials(trials: Sequence[Trial], releases: Releases, output: Output, choices: Choices) -> Outcomes:
    """Build candidates of several backends.

    Args:
        trials: the candidates of each backend.
        releases: the releases to build for.
        output: shows progress.
        choices: the options of the build.

    Raises:
        DriverError: an error that prevents all builds.
    """
    check_user_lock(releases)
    found: dict[str, Module | DriverError] = {key: why for trial in trials for key, why in trial.refused.items()}
    cpu_seconds = 0.0
    by_directory = {trial.directory: trial for trial in trials}
    tasks = [
        Prepared(directory=trial.directory, plan=_plan(trial, choices), chosen=trial.plan.variants)
        for trial in trials
        if trial.plan.variants
    ]
    for task in tasks:
        check_place(task.directory / BUILD)
    total = sum(len(task.chosen) for task in tasks)
    choices = replace(choices, keep_going=True)
    with placed(tasks, releases, output, gcc=lambda _: choices.gcc) as (groups, failures):
        for failure in failures.values():
            raise failure
        for group in groups:
            projects, root = [entry.project for entry in group], group[0].project.workspace.root
            with session(group[0].bazel, root, output) as bazel:
                batch = bazel.build(projects, choices, title=f"building {counted(total, 'candidate')}")
                batch.raise_interruption()
                cpu_seconds += sum(batch.completed.events.cpu.values())
                for entry, outcome in zip(group, batch.outcomes(), strict=True):
                    found |= _collected(entry, by_directory[entry.task.directory], batch, outcome)
    return Outcomes(of=found, cpu_seconds=cpu_seconds)


def _plan(trial: Trial, choices: Choices) -> Plan:
    """The plan of a trial, whose candidates include the same header."""
    return trial.plan if choices.remote.is_used else with_precompiled(trial.plan, trial.directory)


def _collected(
    entry: Placed[Prepared], trial: Trial, batch: Batch, outcome: Outcome
) -> dict[str, Module | DriverError]:
    """The results of the candidates of a backend."""
    built, failed = {counts.variant: counts for counts in outcome.counts}, batch.failed(entry.project)
    found: dict[str, Module | DriverError] = {}
    for variant in trial.plan.variants:
        key = trial.key_of(variant)
        if label := failed.get(variant.name):
            why = batch.variant_failure(entry.project, label)
            if why is None:
                raise outcome.failure or AssertionError(label)
            found[key] = why
            continue
        counts = built[variant.name]
        with true_names(batch.root / counts.directory, trial.plan) as named:
            path, _ = collect(named, trial.directory / BUILD, variant.name)
        found[key] = Module(
            path=path, name=variant.module, seconds=counts.seconds, ran=counts.run, notes=trial.notes.get(key, ())
        )
    return found
