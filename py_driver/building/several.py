"""Several projects in one build: Bazel is called once for all of them, and one that fails does not stop the others."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from py_driver.actions.author_paths import Project
from py_driver.actions.begun import Beginning, remembered
from py_driver.actions.estimate import Work, together, without_load
from py_driver.actions.executed import count_steps, places_of, read_records, trace_steps
from py_driver.actions.workspace import is_busy, one_at_a_time, workspace_for
from py_driver.bazel.find import find_bazel
from py_driver.bazel.invocation import KEEP_GOING, building
from py_driver.bazel.invocation import build as build_targets
from py_driver.bazel.remote import reachable
from py_driver.bazel.run import Completed, Stopped, output_base
from py_driver.bazel.servers import free_server
from py_driver.bazel.spawns import read_spawns
from py_driver.building.build import Build, collect_built, learn, look_ahead, report, say_plan, say_untested
from py_driver.building.selection import archives
from py_driver.diagnosing.messages import Teller
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.fetch.prefetch import fetch_all
from py_driver.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from py_driver.actions.executed import CellStep, CellSteps
    from py_driver.bazel.servers import Server
    from py_driver.building.build import Ahead, Options, Prepared
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant

Result = Build | DriverError
"""What came of a project."""


class _Planned(Protocol):
    """What is planned of a project."""

    @property
    def directory(self) -> Path:
        """Where it is."""

    @property
    def plan(self) -> Plan:
        """The plan of it."""

    @property
    def chosen(self) -> Sequence[Variant]:
        """The variants to build."""


P = TypeVar("P", bound=_Planned)


class Placed(NamedTuple, Generic[P]):
    """A project in its workspace.

    Attributes:
        task: what is to be done with it.
        project: as it is built.
        bytes_fetched: of archives, from the network.
        start: since when no other run builds it, in seconds of `time.monotonic`.
    """

    task: P
    project: Project
    bytes_fetched: int
    start: float


def build_several(
    projects: Sequence[Prepared], releases: Releases, output: Output, options: Options
) -> dict[Path, Result]:
    """Build projects into the `build/` of each.

    Args:
        projects: each in a directory of its own.
        releases: to build for.
        output: where progress is shown.
        options: how; which reports are written, the projects say.

    Returns:
        What came of each, by its directory.

    Raises:
        DriverError: what is wrong for all of them: there is no Bazel, say; INTERRUPTED.
    """
    results: dict[Path, Result] = {}
    say_untested([variant for one in projects for variant in one.chosen], releases, output, options)
    for batch in (part for every in batches(projects) for part in free_first(every)):
        with placed(batch, releases, output, lambda _: options.choices.gcc) as (there, failures):
            results |= failures
            roots: dict[Path, list[Placed[Prepared]]] = {}
            for one in there:
                roots.setdefault(one.project.workspace.root, []).append(one)
            for root, those in roots.items():
                results |= _build(root, those, releases, output, options)
    return results


def batches(projects: Iterable[P]) -> Iterator[list[P]]:
    """Projects that can be built at once: in a workspace a project has its name alone, so no two of the same name."""
    left = list(projects)
    while left:
        now = {one.plan.module: one for one in reversed(left)}
        batch = [one for one in left if now[one.plan.module] is one]
        yield batch
        left = [one for one in left if now[one.plan.module] is not one]


def free_first(batch: Sequence[P]) -> Iterator[list[P]]:
    """Parts of a batch: what nobody else builds now, and then each project that must be waited for, alone."""
    busy = [is_busy(one.directory, one.plan) for one in batch]
    if free := [one for one, waits in zip(batch, busy, strict=True) if not waits]:
        yield free
    yield from ([one] for one, waits in zip(batch, busy, strict=True) if waits)


@contextmanager
def placed(
    batch: Sequence[P], releases: Releases, output: Output, gcc: Callable[[P], bool]
) -> Iterator[tuple[list[Placed[P]], dict[Path, DriverError]]]:
    """Projects in their workspaces, with the archives they need, and why others are not there; no other run has them.

    Args:
        batch: projects of different names.
        releases: to build for.
        output: where progress is shown.
        gcc: whether gcc compiles all C++ of a project.

    Raises:
        DriverError: INTERRUPTED.
    """
    there: list[Placed[P]] = []
    failures: dict[Path, DriverError] = {}
    with ExitStack() as stack:
        # In the order of their names, so that no two runs wait for each other.
        copies = {
            one.directory: stack.enter_context(one_at_a_time(one.directory, one.plan, output))
            for one in sorted(batch, key=lambda one: one.plan.module)
        }
        start = time.monotonic()
        for one in batch:
            try:
                workspace = workspace_for(one.directory, one.plan, releases, copies[one.directory])
                fetched = fetch_all(archives(one.plan, one.chosen, releases.lock, gcc=gcc(one)), output)
            except DriverError as failure:
                if failure.diagnostics[0].code is Code.INTERRUPTED:
                    raise
                failures[one.directory] = failure
                continue
            project = Project(directory=one.directory, plan=one.plan, chosen=one.chosen, workspace=workspace)
            there.append(Placed(one, project, sum(part.bytes_fetched for part in fetched), start))
        yield there, failures


def _build(
    root: Path, those: Sequence[Placed[Prepared]], releases: Releases, output: Output, options: Options
) -> dict[Path, Result]:
    """Build the projects of a workspace."""
    choices = options.choices
    bazel = find_bazel(root, output)
    with ExitStack() as stack:
        server = stack.enter_context(free_server(bazel, root, output))
        jobs, memory = choices.at_once(), choices.memory(server.running)
        ahead = [look_ahead(one.task, releases, choices, memory) for one in those]
        variants = sum(len(one.project.chosen) for one in those)
        works = [Work(one.project.plan.module, its.steps, its.history) for one, its in zip(those, ahead, strict=True)]
        expected = together(works, jobs=jobs, memory=memory)
        say_plan(expected, variants, jobs, memory, output)
        teller = Teller(
            projects=[one.project for one in those], choices=replace(choices, keep_going=True), output=output
        )
        beginnings = [
            Beginning(one.project.plan.module, one.project.workspace.package, its.steps)
            for one, its in zip(those, ahead, strict=True)
        ]
        log = stack.enter_context(remembered(beginnings, output_base(server.bazel, root)))
        done, steps = _run(server, root, those, options, teller, expected.seconds, log.path)
        results: dict[Path, Result] = {}
        for one, before in zip(those, ahead, strict=True):
            directory = one.project.directory
            built = {one.project.workspace.label(each.variant) for each in steps[directory][0]}
            others = [each.project.workspace.package for each in those if each is not one]
            failure = failure_of(one.project, others, done, built, teller)
            try:
                results[directory] = failure or _collected(one, releases.lock, before, done, steps[directory], output)
                if failure is None:
                    log.known.add(one.project.plan.module)
            except DriverError as refused:
                results[directory] = refused
        if done.failure is not None and done.failure.diagnostics[0].code is Code.INTERRUPTED:
            # What was finished is in its place.
            raise done.failure
    return results


def _run(  # noqa: PLR0913  (which Bazel, what, how, and where it is shown)
    server: Server,
    root: Path,
    those: Sequence[Placed[Prepared]],
    options: Options,
    teller: Teller,
    planned: float,
    log: Path,
) -> tuple[Completed, dict[Path, tuple[list[CellSteps], list[CellStep]]]]:
    """Let Bazel build all of it; what came of that, and the steps of each project's variants that were built."""
    output, explain = teller.output, teller.explain
    with tempfile.TemporaryDirectory(prefix="driver-") as name, reachable(options.choices.remote) as remote:
        args = building(replace(options.choices, remote=remote), server.running, Path(name), log, output)
        labels = [label for one in those for label in one.project.variants]
        title = f"building {counted(len(those), 'project')}"
        args = [*args, KEEP_GOING]
        try:
            done = build_targets(
                server.bazel,
                root,
                labels,
                output,
                title=title,
                options=args,
                check=False,
                explain=explain,
                planned=planned,
            )
        except Stopped as stopped:
            done = Completed(stdout="", events=stopped.events, failure=error(Code.INTERRUPTED, "interrupted"))
        if done.failure is None:
            teller.warn(done.events)
        server.built_in(done.events.exec_root)
        by_label = read_records(done.events.groups.get("steps", ()))
        records = {
            one.project.directory: [by_label[label] for label in one.project.variants if label in by_label]
            for one in those
        }
        every = [one for some in records.values() for one in some]
        calls = any(one.task.report for one in those)
        traced = iter(trace_steps(every, done.events.completed, read_spawns(log, calls=calls)))
        # The steps come in the order of the records.
        steps = {directory: [next(traced) for one in some for _ in one["steps"]] for directory, some in records.items()}
    totals = {directory: count_steps(some, steps[directory]) for directory, some in records.items()}
    return done, {directory: (totals[directory], own) for directory, own in steps.items()}


def failure_of(
    project: Project, packages: Iterable[str], done: Completed, built: Container[str], teller: Teller
) -> DriverError | None:
    """Why a project was not built; None if it was.

    Args:
        project: which.
        packages: of the other projects, whose errors are not its own.
        done: what came of the build.
        built: labels of variants of which there is a record.
        teller: tells of the errors of its actions.
    """
    if done.failure is None:
        return None
    failed = {label.lstrip("@") for label in done.events.failed}
    if not (wrong := [label for label in project.variants if label in failed or label not in built]):
        return None
    whole = next((each for each in done.failure.diagnostics if not each.text), None)
    if whole is None or whole.code is not Code.BUILD_FAILED:
        return done.failure
    own = [each for each in done.failure.diagnostics if not each.text and each is not whole]
    others = tuple(f"/{package}/" for package in packages)
    errors, summary = teller.failure(project, done.events)
    message = summary or f"the build of {project.directory} failed: {', '.join(wrong)}"
    mine = [each for each in own if not any(other in each.message for other in others)]
    return DriverError([*errors, Diagnostic(code=whole.code, message=message, help=whole.help), *mine])


def _collected(  # noqa: PLR0913  (what, from what, and what became of it)
    one: Placed[Prepared],
    lock: Lock,
    ahead: Ahead,
    done: Completed,
    steps: tuple[list[CellSteps], list[CellStep]],
    output: Output,
) -> Build:
    """Bring what was built of a project into its `build/`, remember what that took, and write its report."""
    project, (totals, done_steps) = one.task, steps
    cells = collect_built(project, lock, done.events.exec_root or one.project.workspace.root, totals)
    placed = places_of(totals, done_steps)
    learn(project, ahead, without_load(placed, done.events.cpu))
    report(project, totals, placed, output)
    return Build(
        directory=project.directory,
        plan=project.plan,
        estimate=ahead.estimate,
        cells=cells,
        bytes_fetched=one.bytes_fetched,
        seconds=time.monotonic() - one.start,
    )
