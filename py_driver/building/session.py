"""One call of Bazel for all variants of several projects: the server, the options, and the outcome of each variant."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.actions.executed import VariantAction, VariantActions, count_actions, read_records, trace_actions
from py_driver.bazel.invocation import Choices, building, verifying, without_check
from py_driver.bazel.invocation import build as build_targets
from py_driver.bazel.remote import reachable
from py_driver.bazel.run import Completed, Stopped, output_base
from py_driver.bazel.servers import build_turn, free_server
from py_driver.bazel.spawns import read_spawns
from py_driver.diagnosing.messages import Messages
from py_driver.errors import Code, Diagnostic, DriverError, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from py_driver.actions.author_paths import BuiltProject
    from py_driver.bazel.events import Events
    from py_driver.bazel.find import Bazel
    from py_driver.bazel.servers import Server
    from py_driver.bazel.spawns import Spawn
    from py_driver.output import Output


class Outcome(NamedTuple):
    """The outcome of a project.

    Attributes:
        project: the project.
        counts: the counts of actions of each built variant.
        actions: the actions of these variants.
        failure: the error of the build; None if all variants were built.
    """

    project: BuiltProject
    counts: list[VariantActions]
    actions: list[VariantAction]
    failure: DriverError | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The results of a call of Bazel.

    Attributes:
        projects: the projects to build.
        completed: Bazel's report.
        root: the root of Bazel's outputs.
        records: the record of actions of each built variant, by label.
        spawns: processes that ran, or whose results came from a cache; empty without an execution log.
        interruption: the interruption that stopped Bazel early; None if there was none.
        messages: the messages of its errors.
    """

    projects: Sequence[BuiltProject]
    completed: Completed
    root: Path
    records: Mapping[str, Any]
    spawns: Sequence[Spawn]
    interruption: KeyboardInterrupt | DriverError | None
    messages: Messages

    def outcomes(self) -> list[Outcome]:
        """The outcome of each project, in order."""
        records = [
            [self.records[label] for label in project.variants if label in self.records] for project in self.projects
        ]
        # An action that two projects share counts for the first of them. The actions come in the records' order.
        flat = [record for own in records for record in own]
        traced = iter(trace_actions(flat, self.completed.events.completed, self.spawns))
        found = []
        for project, own in zip(self.projects, records, strict=True):
            actions = [next(traced) for record in own for _ in record["steps"]]
            found.append(Outcome(project, count_actions(own, actions), actions, self._failure(project)))
        return found

    def raise_interruption(self) -> None:
        """Raise the interruption, once the finished variants are in their place.

        Raises:
            KeyboardInterrupt: this process was interrupted.
            DriverError: INTERRUPTED; Bazel was interrupted.
        """
        if self.interruption is not None:
            raise self.interruption

    def failed(self, project: BuiltProject) -> dict[str, str]:
        """The labels of a project's variants that were not built, by name."""
        failed = {label.lstrip("@") for label in self.completed.events.failed}
        return {name: label for label, name in project.variants.items() if label in failed or label not in self.records}

    def variant_failure(self, project: BuiltProject, label: str) -> DriverError | None:
        """The errors of a variant's actions; None if there are none.

        Args:
            project: the project of the variant.
            label: the variant's label.
        """
        errors = self.messages.failure_of(project, label, self.completed.events)
        return DriverError(errors) if errors else None

    def _failure(self, project: BuiltProject) -> DriverError | None:
        """The error of a project; None if it was built. Errors of other projects are left out."""
        failure, wrong = self.completed.failure, self.failed(project)
        if failure is None and wrong:
            advice = "its outputs must be on this machine: a .bazelrc must not set --remote_download_outputs=minimal"
            return error(Code.BUILD_FAILED, f"Bazel does not report the outputs of {', '.join(wrong)}", help=advice)
        if failure is None or len(self.projects) == 1:
            return failure
        if not wrong:
            return None
        general = next((diagnostic for diagnostic in failure.diagnostics if not diagnostic.text), None)
        if general is None or general.code is not Code.BUILD_FAILED:
            return failure
        others = [f"/{other.workspace.package}/" for other in self.projects if other is not project]
        rest = [
            diagnostic
            for diagnostic in failure.diagnostics
            if not diagnostic.text
            and diagnostic is not general
            and not any(package in diagnostic.message for package in others)
        ]
        errors, summary = self.messages.failure(project, self.completed.events)
        message = summary or f"the build of {project.directory} failed: {', '.join(wrong.values())}"
        return DriverError([*errors, Diagnostic(code=general.code, message=message, help=general.help), *rest])


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A Bazel that runs nothing else meanwhile.

    Attributes:
        bazel: the Bazel.
        root: the root of the workspace.
        running: the number of running builds, this one included.
        output: where progress and errors are shown.
        server: its server; None if it keeps nothing and uses no cache.
    """

    bazel: Bazel
    root: Path
    running: int
    output: Output
    server: Server | None = None

    @property
    def name(self) -> str:
        """The name of its server, the same in later sessions."""
        return self.server.name if self.server else ""

    @property
    def base(self) -> Path | None:
        """The directory of Bazel's outputs; None if unknown."""
        return output_base(self.bazel, self.root)

    def tool(self, label: str, title: str) -> Path:
        """Build a program of the rules.

        Args:
            label: the label of its target.
            title: the title of the work.

        Raises:
            DriverError: Bazel failed; see `py_driver.bazel.run`.
        """
        done = build_targets(self.bazel, self.root, [label], self.output, title=title)
        return next(file for files in done.events.outputs.values() for file in files)

    def build(  # noqa: PLR0913  (the projects, the choices, and what to keep)
        self,
        projects: Sequence[BuiltProject],
        choices: Choices,
        *,
        title: str,
        log: Path | None = None,
        calls: bool = False,
        planned: float = 0.0,
        checked: str = "",
        finished: Callable[[BuiltProject, Mapping[str, Path]], None] | None = None,
        quiet: bool = False,
    ) -> Batch:
        """Build all variants of projects; among several, a project that fails does not stop the others.

        Args:
            projects: projects of this workspace.
            choices: how to build.
            title: the title of the work.
            log: the file for Bazel's execution log; a temporary one if None.
            calls: whether to record the command line of each process.
            planned: the estimated seconds of the actions; 0 if unknown.
            checked: the name of the session that has just checked the files of toolchains for changes.
            finished: called with each project whose variants are all built while Bazel builds others, and with the
                directories of these variants, by name.
            quiet: whether compiler warnings are neither shown nor counted nor recorded for later builds.

        Raises:
            DriverError: Bazel could not be started; later errors are in the result.
        """
        choices = replace(choices, keep_going=choices.keep_going or len(projects) > 1)
        messages = Messages(projects=projects, choices=choices, output=self.output)
        interruption: KeyboardInterrupt | DriverError | None = None
        with tempfile.TemporaryDirectory(prefix="driver-") as scratch, reachable(choices.remote) as remote:
            log = log or Path(scratch, "spawns.bin")
            try:
                completed = build_targets(
                    self.bazel,
                    self.root,
                    [label for project in projects for label in project.variants],
                    self.output,
                    title=title,
                    options=self._options(replace(choices, remote=remote), Path(scratch), log, checked),
                    check=False,
                    explain=messages.explain,
                    planned=planned,
                    watch=_Finished(projects, self.root, finished) if finished and len(projects) > 1 else None,
                )
            except Stopped as stopped:
                failure = DriverError([Diagnostic(code=Code.INTERRUPTED, message="interrupted")])
                completed, interruption = Completed(stdout="", events=stopped.events, failure=failure), stopped
            spawns = list(read_spawns(log, calls=calls)) if self.server else []
        if completed.failure is None and not quiet:
            messages.warn(completed.events)
        if interruption is None and completed.failure and completed.failure.diagnostics[0].code is Code.INTERRUPTED:
            interruption = completed.failure
        if self.server is not None:
            self.server.built_in(completed.events.exec_root)
        return Batch(
            projects=projects,
            completed=completed,
            root=completed.events.exec_root or self.root,
            records=read_records(completed.events.groups.get("steps", ())),
            spawns=spawns,
            interruption=interruption,
            messages=messages,
        )

    def _options(self, choices: Choices, scratch: Path, log: Path, checked: str) -> list[str]:
        if self.server is None:
            return verifying(choices, self.running, self.output)
        options = building(choices, self.running, scratch, log, self.output)
        return [*options, *(without_check(self.bazel) if checked and checked == self.name else [])]


@dataclass(slots=True)
class _Finished:
    """Finds projects whose variants are all built.

    Attributes:
        left: the projects with variants that are not built yet.
        root: the root of the workspace.
        tell: called once with each finished project.
    """

    left: Sequence[BuiltProject]
    root: Path
    tell: Callable[[BuiltProject, Mapping[str, Path]], None]

    def __call__(self, events: Events) -> None:
        """Process the variants that are built so far."""
        records = read_records(events.groups.get("steps", ()))
        root = events.exec_root or self.root
        built = records.keys() - {label.lstrip("@") for label in events.failed}
        done = [project for project in self.left if built >= project.variants.keys()]
        self.left = [project for project in self.left if project not in done]
        for project in done:
            self.tell(project, {name: root / records[label]["directory"] for label, name in project.variants.items()})


@contextmanager
def session(bazel: Bazel, root: Path, output: Output) -> Iterator[Session]:
    """A Bazel of a workspace that uses caches, and that no other build uses during the context.

    Args:
        bazel: the Bazel.
        root: the root of the workspace.
        output: where progress and errors are shown.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    with free_server(bazel, root, output) as server:
        yield Session(bazel=server.bazel, root=root, running=server.running, output=output, server=server)


@contextmanager
def session_without_results(bazel: Bazel, root: Path, output: Output) -> Iterator[Session]:
    """A session of a Bazel that has no results and uses no cache.

    Args:
        bazel: see `py_driver.bazel.invocation.apart`.
        root: the root of the workspace.
        output: where progress and errors are shown.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    with build_turn(output) as turn:
        yield Session(bazel=bazel, root=root, running=turn.running, output=output)
