"""Several projects in one build: Bazel is called once for all of them, and one that fails does not stop the others."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from py_driver.bazel.find import find_bazel
from py_driver.bazel.invocation import KEEP_GOING, building
from py_driver.bazel.invocation import build as build_targets
from py_driver.bazel.remote import reachable
from py_driver.bazel.servers import free_server
from py_driver.bazel.spawns import read_spawns
from py_driver.building.author_paths import Project
from py_driver.building.build import Build, collect_built, learn, look_ahead, report, say_untested
from py_driver.building.estimate import Work, describe, together
from py_driver.building.executed import count_steps, places_of, read_records, trace_steps
from py_driver.building.selection import archives
from py_driver.building.tell import Teller
from py_driver.building.workspace import one_at_a_time, workspace_for
from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.fetch.prefetch import fetch_all

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from py_driver.bazel.run import Completed
    from py_driver.bazel.servers import Server
    from py_driver.building.build import Ahead, Options, Prepared
    from py_driver.building.executed import CellStep, CellSteps
    from py_driver.building.workspace import Workspace
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan

Result = Build | DriverError
"""What came of a project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Placed:
    """A project in its workspace.

    Attributes:
        project: what is to be built.
        workspace: where.
        bytes_fetched: of archives, from the network.
    """

    project: Prepared
    workspace: Workspace
    bytes_fetched: int

    @property
    def named(self) -> Project:
        """The project, with what it is called here and there."""
        project = self.project
        return Project(directory=project.directory, plan=project.plan, chosen=project.chosen, workspace=self.workspace)

    @property
    def labels(self) -> list[str]:
        """The labels of its variants, in their order."""
        return [self.workspace.label(variant.name) for variant in self.project.chosen]


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
    for batch in batches(projects):
        with ExitStack() as stack:
            # In the order of their names, so that no two runs wait for each other.
            for one in sorted(batch, key=lambda one: one.plan.module):
                stack.enter_context(one_at_a_time(one.plan, output))
            start = time.monotonic()
            roots: dict[Path, list[_Placed]] = {}
            for one in batch:
                try:
                    workspace = workspace_for(one.directory, one.plan, releases)
                    fetched = fetch_all(archives(one.plan, one.chosen, releases.lock, gcc=options.choices.gcc), output)
                except DriverError as failure:
                    results[one.directory] = failure
                    continue
                placed = _Placed(
                    project=one, workspace=workspace, bytes_fetched=sum(part.bytes_fetched for part in fetched)
                )
                roots.setdefault(workspace.root, []).append(placed)
            for root, those in roots.items():
                results |= _build(root, those, releases, output, options, start)
    return results


class _Planned(Protocol):
    """What `batches` has to know of a project."""

    @property
    def plan(self) -> Plan:
        """The plan of it."""


P = TypeVar("P", bound=_Planned)


def batches(projects: Iterable[P]) -> Iterator[list[P]]:
    """Projects that can be built at once: in a workspace a project has its name alone, so no two of the same name."""
    left = list(projects)
    while left:
        now = {one.plan.module: one for one in reversed(left)}
        batch = [one for one in left if now[one.plan.module] is one]
        yield batch
        left = [one for one in left if now[one.plan.module] is not one]


def _build(  # noqa: PLR0913  (where, what, for which releases, how, where it is shown, and since when)
    root: Path, those: Sequence[_Placed], releases: Releases, output: Output, options: Options, start: float
) -> dict[Path, Result]:
    """Build the projects of a workspace."""
    choices = options.choices
    bazel = find_bazel(root, output)
    with free_server(bazel, root, output) as server:
        jobs, memory = choices.at_once(), choices.memory(server.running)
        ahead = [look_ahead(one.project, releases, choices, memory) for one in those]
        variants = sum(len(one.project.chosen) for one in those)
        works = [Work(one.project.plan.module, its.steps, its.history) for one, its in zip(those, ahead, strict=True)]
        output.say(describe(together(works, jobs=jobs, memory=memory), variants, jobs))
        teller = Teller(projects=[one.named for one in those], choices=replace(choices, keep_going=True), output=output)
        done, steps = _run(server, root, those, options, teller)
        if done.failure is not None and done.failure.diagnostics[0].code is Code.INTERRUPTED:
            raise done.failure
        results: dict[Path, Result] = {}
        for one, before in zip(those, ahead, strict=True):
            directory = one.project.directory
            built = {one.workspace.label(each.variant) for each in steps[directory][0]}
            others = [each.workspace.package for each in those if each is not one]
            failure = failure_of(one.named, others, done, built, teller)
            try:
                results[directory] = failure or _collected(one, before, done, steps[directory], start, output)
            except DriverError as refused:
                results[directory] = refused
    return results


def _run(
    server: Server, root: Path, those: Sequence[_Placed], options: Options, teller: Teller
) -> tuple[Completed, dict[Path, tuple[list[CellSteps], list[CellStep]]]]:
    """Let Bazel build all of it; what came of that, and the steps of each project's variants that were built."""
    output, explain = teller.output, teller.explain
    with tempfile.TemporaryDirectory(prefix="driver-") as name, reachable(options.choices.remote) as remote:
        log = Path(name, "spawns.bin")
        args = building(replace(options.choices, remote=remote), server.running, Path(name), log, output)
        labels = [label for one in those for label in one.labels]
        title = f"building {len(those)} project{'s' * (len(those) != 1)}"
        args = [*args, KEEP_GOING]
        done = build_targets(
            server.bazel, root, labels, output, title=title, options=args, check=False, explain=explain
        )
        if done.failure is None:
            teller.warn(done.events)
        server.built_in(done.events.exec_root)
        by_label = read_records(done.events.groups.get("steps", ()))
        records = {
            one.project.directory: [by_label[label] for label in one.labels if label in by_label] for one in those
        }
        every = [one for some in records.values() for one in some]
        calls = any(one.project.report for one in those)
        traced = iter(trace_steps(every, done.events.completed, read_spawns(log, calls=calls)))
        # The steps come in the order of the records.
        steps = {directory: [next(traced) for one in some for _ in one["steps"]] for directory, some in records.items()}
    counted = {directory: count_steps(some, steps[directory]) for directory, some in records.items()}
    return done, {directory: (counted[directory], own) for directory, own in steps.items()}


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
    labels = [project.workspace.label(variant.name) for variant in project.chosen]
    if not (wrong := [label for label in labels if label in failed or label not in built]):
        return None
    whole = next((each for each in done.failure.diagnostics if not each.text), None)
    if whole is None or whole.code is not Code.BUILD_FAILED:
        return done.failure
    own = [each for each in done.failure.diagnostics if not each.text and each is not whole]
    others = tuple(f"/{package}/" for package in packages)
    errors, summary = teller.failure(project, done.events)
    message = summary or f"the build failed: {', '.join(wrong)}"
    message = message.replace("the build failed", f"the build of {project.directory} failed", 1)
    mine = [each for each in own if not any(other in each.message for other in others)]
    return DriverError([*errors, Diagnostic(code=whole.code, message=message, help=whole.help), *mine])


def _collected(  # noqa: PLR0913  (what, what was expected of it, what was done, since when, where the report is said)
    one: _Placed,
    ahead: Ahead,
    done: Completed,
    steps: tuple[list[CellSteps], list[CellStep]],
    start: float,
    output: Output,
) -> Build:
    """Bring what was built of a project into its `build/`, remember what that took, and write its report."""
    project, (counted, done_steps) = one.project, steps
    cells = collect_built(project, done.events.exec_root or one.workspace.root, counted)
    placed = places_of(counted, done_steps)
    learn(project, ahead, placed)
    report(project, counted, placed, output)
    return Build(
        directory=project.directory,
        plan=project.plan,
        estimate=ahead.estimate,
        cells=cells,
        bytes_fetched=one.bytes_fetched,
        seconds=time.monotonic() - start,
    )
