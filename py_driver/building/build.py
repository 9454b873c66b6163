"""A build from beginning to end: plan, fetch, Bazel, copy, count, report."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.actions.begun import Beginning, remembered
from py_driver.actions.estimate import Estimate, Work, learned, together, without_load
from py_driver.actions.executed import VariantActions, places_of
from py_driver.actions.expected import compiled_sources
from py_driver.actions.history import read_calls, write_calls, write_history
from py_driver.actions.rerun_reasons import calls_of
from py_driver.bazel.invocation import Choices
from py_driver.building.ahead import (
    look_ahead,
    say_openmp,
    say_plan,
    say_preparation,
    say_untested,
    say_unused_archs,
    say_unused_choices,
)
from py_driver.building.batches import batches, free_first, placed
from py_driver.building.collect import check_place, collect
from py_driver.building.file_names import true_names
from py_driver.building.made import remember
from py_driver.building.selection import check_compression, check_split, choose, made_from
from py_driver.building.session import session
from py_driver.building.variant_dir import BUILD, DEV, SLICES, dev_directory, read_metadata
from py_driver.errors import DriverError
from py_driver.matrix.lock_update import check_user_lock
from py_driver.matrix.select import ANY
from py_driver.output import counted
from py_driver.plan.for_pythons import for_pythons
from py_driver.plan.narrow import narrowed
from py_driver.plan.plan import plan_directory
from py_driver.plan.slices import sliced
from py_driver.reporting.report_page import check_page, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from py_driver.actions.executed import Place, VariantAction
    from py_driver.building.ahead import Ahead
    from py_driver.building.batches import Placed
    from py_driver.building.session import Batch, Outcome
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output
    from py_driver.plan.for_pythons import Pythons
    from py_driver.plan.plan import Plan, Variant


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The selection of variants, and the settings of a build.

    Attributes:
        strict_archs: whether an architecture that is requested and not built is an error.
        words: torch releases and backends of the variants.
        archs: GPU architectures to build for; empty for all of the project.
        report: the page to write, with the same data as JSON beside it; None for no report.
        local: whether the build is only for this machine; then it goes into `dev_directory` instead of `build/`.
        into: the name of a directory for such a build, instead of its id.
        slices: whether to build slices, too; see `py_driver.plan.slices`.
        pythons: the Pythons of a configuration, if projects are bound by pybind11; see `py_driver.plan.for_pythons`.
        destination: the directory for the variants instead of the project's own.
        change: a change of the plan before the build; see `py_driver.plan.overrides`.
        checked: the server that checked the files of toolchains for changes, in a build just before this one.
        choices: further choices.
    """

    strict_archs: bool = False
    words: Words = ANY
    archs: tuple[str, ...] = ()
    report: Path | None = None
    local: bool = False
    into: str = ""
    slices: bool = False
    pythons: Pythons | None = None
    destination: Path | None = None
    change: Callable[[Plan], Plan] | None = None
    checked: str = ""
    choices: Choices = field(default_factory=Choices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A built variant.

    Attributes:
        variant: the planned variant.
        path: its directory: `PROJECT/build/VARIANT`, `PROJECT/build-slices/CAPABILITY/VARIANT`, or in `dev_directory`.
        size: the size of its files, in bytes.
        actions: its compile actions.
    """

    variant: Variant
    path: Path
    size: int
    actions: VariantActions


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """A successful build.

    Attributes:
        directory: the directory of the project.
        plan: the plan of the project.
        variants: the built variants, in the plan's order.
        estimate: the estimate before the build.
        bytes_fetched: bytes from the network for archives and Bazel.
        seconds: the duration.
        server: the name of the Bazel server.
        unnarrowed: see `Prepared.unnarrowed`.
    """

    directory: Path
    plan: Plan
    estimate: Estimate
    variants: tuple[Built, ...]
    bytes_fetched: int
    seconds: float
    server: str = ""
    unnarrowed: tuple[Plan, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A project that is ready to be built.

    Attributes:
        directory: the directory of the project.
        plan: the plan of the project.
        chosen: the variants to build.
        report: see `Options.report`.
        local: see `Options.local`.
        into: see `Options.into`.
        destination: the directory for its variants instead of the project's own.
        unnarrowed: the plan of all variants in the manifest; empty if no such plan was made.
    """

    directory: Path
    plan: Plan
    chosen: tuple[Variant, ...]
    report: Path | None = None
    local: bool = False
    into: str = ""
    destination: Path | None = None
    unnarrowed: tuple[Plan, ...] = ()

    def place_of(self, variant: Variant, built: Path) -> Path:
        """The parent directory of a variant.

        Args:
            variant: the variant.
            built: its directory, in Bazel's output tree.
        """
        if variant.slice:
            return self.directory / SLICES / variant.slice.name
        if self.destination is not None and variant.python and not variant.module:
            return self.destination / variant.python.tag
        if self.destination is not None:
            return self.destination
        if not self.local:
            return self.directory / BUILD
        return self.directory / DEV / self.into if self.into else dev_directory(self.directory, built)


Result = Build | DriverError
"""The build of a project, or its error."""


def build(
    directory: Path, patterns: Sequence[str], releases: Releases, output: Output, options: Options | None = None
) -> Build:
    """Build variants of a project into its `build/`.

    Args:
        directory: the directory of the project.
        patterns: globs of identifiers; empty for the default variants.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to build; the defaults if None.

    Raises:
        DriverError: an error of the project, the machine or the sources; FOREIGN_FILE or PERMISSION if the
            report cannot be written.
    """
    options = options or Options()
    return build_prepared(prepare(directory, patterns, releases, output, options), releases, output, options)


def build_prepared(prepared: Prepared, releases: Releases, output: Output, options: Options) -> Build:
    """Build variants of a prepared project; see `build`."""
    [result] = build_all([prepared], releases, output, options).values()
    if isinstance(result, DriverError):
        raise result
    return result


def build_all(projects: Sequence[Prepared], releases: Releases, output: Output, options: Options) -> dict[Path, Result]:
    """Build projects into the `build/` of each, with one call of Bazel for all that can be built together.

    Args:
        projects: the projects, each in its own directory.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to build; each project names its own report.

    Returns:
        The result of each project, by its directory.

    Raises:
        DriverError: an error that concerns all, such as a missing Bazel; see `check_compression`; INTERRUPTED.
    """
    results: dict[Path, Result] = {}
    chosen = [variant for project in projects for variant in project.chosen]
    check_compression(chosen, releases, options.choices.compression)
    say_untested(chosen, releases, output, options.choices)
    for batch in (part for every in batches(projects) for part in free_first(every)):
        with placed(batch, releases, output, gcc=lambda _: options.choices.gcc) as (groups, failures):
            results |= failures
            for group in groups:
                results |= _build(group, releases, output, options)
    return results


def prepare(directory: Path, patterns: Sequence[str], releases: Releases, output: Output, options: Options) -> Prepared:
    """Plan the build of a project, and check that its outputs have a place; see `build`."""
    if options.report is not None:
        check_page(options.report)
    check_user_lock(releases)
    plan = plan_directory(directory, releases, strict_archs=options.strict_archs, pybind=options.pythons is not None)
    unnarrowed = (plan,) if options.pythons is None else ()
    if options.archs:
        every, plan = len(plan.variants), narrowed(plan, options.archs)
        if (fewer := every - len(plan.variants)) and not options.local:
            output.say(
                f"note: excluded for lack of device code for {', '.join(options.archs)}: {counted(fewer, 'variant')}"
            )
    plan = options.change(plan) if options.change else plan
    output.notes(plan.notes)
    chosen = choose(plan, patterns, options.words)
    if options.pythons is not None:
        plan = for_pythons(plan, chosen, releases.matrix, options.pythons)
        chosen = list(plan.variants)
    if options.slices:
        check_split(chosen, releases.matrix, options.choices)
        plan = sliced(plan, chosen)
        chosen += [variant for variant in plan.variants if variant.slice]
        check_place(directory / SLICES)
    say_unused_archs(options.archs, chosen, output)
    if not options.local:
        say_unused_choices(options.choices, chosen, output)
    say_openmp(plan, chosen, output)
    check_place(directory / (DEV if options.local else BUILD))
    return Prepared(
        directory=directory,
        plan=plan,
        chosen=tuple(chosen),
        report=options.report,
        local=options.local,
        into=options.into,
        destination=options.destination,
        unnarrowed=unnarrowed,
    )


def _build(
    group: Sequence[Placed[Prepared]], releases: Releases, output: Output, options: Options
) -> dict[Path, Result]:
    """Build projects with one call of Bazel."""
    choices, root, results = options.choices, group[0].project.workspace.root, dict[Path, Result]()
    with session(group[0].bazel, root, output) as bazel:
        jobs, memory = choices.at_once(), choices.memory(bazel.running)
        if memory is not None and choices.ram is None and bazel.running > 1:
            output.say(
                f"{bazel.running} builds run now; the actions of this one get {memory / 1000:.1f} GB (see --ram)"
            )
        ahead = [
            look_ahead(entry.task.directory, entry.task.plan, entry.task.chosen, releases, choices, memory)
            for entry in group
        ]
        modules = [entry.project.plan.module for entry in group]
        works = [Work(module, own.actions, own.history) for module, own in zip(modules, ahead, strict=True)]
        expected = ahead[0].estimate if len(works) == 1 else together(works, jobs=jobs, memory=memory)
        if not options.local:  # a development build takes seconds, and reports afterwards
            say_plan(expected, sum(len(entry.project.chosen) for entry in group), jobs, memory, output)
            say_preparation(bazel.base, output)
        beginnings = [
            Beginning(entry.project.plan.module, entry.project.workspace.package, own.actions)
            for entry, own in zip(group, ahead, strict=True)
        ]
        with remembered(beginnings, bazel.base) as log:
            batch = bazel.build(
                [entry.project for entry in group],
                choices,
                title=f"building {group[0].task.plan.name if len(group) == 1 else counted(len(group), 'project')}",
                log=log.path,
                calls=any(entry.task.report for entry in group),
                planned=expected.seconds,
                checked=options.checked,
                finished=lambda project, directories: _put_early(
                    next(entry.task for entry in group if entry.project is project), releases.lock, directories, output
                ),
            )
            for entry, own, outcome in zip(group, ahead, batch.outcomes(), strict=True):
                try:
                    if outcome.failure:
                        raise outcome.failure
                    done = _collected(entry, releases.lock, own, batch, outcome)
                except DriverError as failure:
                    results[entry.task.directory] = failure
                    continue
                log.known.add(entry.task.plan.module)
                results[entry.task.directory] = replace(done, server=bazel.name)
        batch.raise_interruption()
    return results


def _collected(entry: Placed[Prepared], lock: Lock, ahead: Ahead, batch: Batch, outcome: Outcome) -> Build:
    """Copy the built variants of a project to their place, record the durations, and write the report."""
    prepared = entry.task
    variants = _collect_all(prepared, lock, batch.root, outcome.counts)
    actions = places_of(outcome.counts, outcome.actions)
    _learn(prepared, ahead, without_load(actions, batch.completed.events.cpu))
    _report(prepared, outcome.counts, actions, batch.messages.output)
    return Build(
        directory=prepared.directory,
        plan=prepared.plan,
        estimate=ahead.estimate,
        variants=variants,
        bytes_fetched=entry.bytes_fetched,
        seconds=time.monotonic() - entry.start,
        unnarrowed=prepared.unnarrowed,
    )


def _collect_all(prepared: Prepared, lock: Lock, root: Path, counted: Sequence[VariantActions]) -> tuple[Built, ...]:
    """Copy the built variants of a project into its `build/`, or into the directory of development builds.

    Args:
        prepared: the project.
        lock: the archives that it was built from.
        root: the root of Bazel's outputs.
        counted: the actions of each variant.

    Raises:
        DriverError: see `collect` and `true_names`.
    """
    counts = {own.variant: own for own in counted}
    variants = []
    for variant in prepared.chosen:
        path, size = _put(prepared, lock, variant, root / counts[variant.name].directory)
        variants.append(Built(variant=variant, path=path, size=size, actions=counts[variant.name]))
    return tuple(variants)


def _put(prepared: Prepared, lock: Lock, variant: Variant, directory: Path) -> tuple[Path, int]:
    """Copy one variant to its place; returns its directory there, and its size in bytes."""
    with true_names(directory, prepared.plan) as named:
        remember(named, made_from(prepared.plan, variant, read_metadata(named) or {}, lock))
        return collect(named, prepared.place_of(variant, named), variant.identifier)


def _put_early(prepared: Prepared, lock: Lock, directories: Mapping[str, Path], output: Output) -> None:
    """Copy a project to its place while Bazel builds others; errors are reported at the end."""
    with suppress(DriverError, OSError):
        for variant in prepared.chosen:
            _put(prepared, lock, variant, directories[variant.name])
        output.say(f"{prepared.directory} is built")


def _learn(prepared: Prepared, ahead: Ahead, placed: Sequence[tuple[Place, VariantAction]]) -> None:
    """Record the actions of a build, for the estimates of later builds.

    Args:
        prepared: the project.
        ahead: the expectations before the build.
        placed: its actions, each with the compiled source and variant.
    """
    known = learned(ahead.history, ahead.actions, placed, compiled_sources(prepared.plan))
    if known != ahead.history:
        write_history(prepared.plan.module, known)


def _report(
    prepared: Prepared, counted: Sequence[VariantActions], placed: Sequence[tuple[Place, VariantAction]], output: Output
) -> None:
    """Write the report of a built project, if one was requested.

    Args:
        prepared: the project.
        counted: the actions of each variant.
        placed: each action with the compiled source and variant.
        output: where to print the paths.

    Raises:
        DriverError: see `write_report`; NO_SPACE or PERMISSION if the cache cannot be written.
    """
    if prepared.report is None:
        return
    plan = prepared.plan
    earlier = read_calls(plan.module)
    write_report(prepared.report, plan.name, counted, [action for _, action in placed], earlier, output)
    write_calls(plan.module, calls_of(placed, earlier, plan.sources))
