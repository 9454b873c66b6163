"""Projects that can be built together, each in its workspace, with no other run building it."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from py_driver.actions.author_paths import BuiltProject
from py_driver.actions.workspace import is_busy, one_at_a_time, workspace_for
from py_driver.bazel.find import find_bazel
from py_driver.building.selection import archives
from py_driver.errors import Code, DriverError
from py_driver.fetch.prefetch import fetch_all
from py_driver.system.beside import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from pathlib import Path

    from py_driver.bazel.find import Bazel
    from py_driver.fetch.fetcher import Fetched
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant
    from py_driver.system.beside import Beside


class _Planned(Protocol):
    """A planned project."""

    @property
    def directory(self) -> Path:
        """Its directory."""

    @property
    def plan(self) -> Plan:
        """Its plan."""

    @property
    def chosen(self) -> Sequence[Variant]:
        """The variants to build."""


P = TypeVar("P", bound=_Planned)


class Placed(NamedTuple, Generic[P]):
    """A project in its workspace.

    Attributes:
        task: the project's task.
        project: the project as built.
        bazel: the Bazel that builds it.
        bytes_fetched: bytes from the network for archives, and for the first project also for Bazel.
        start: when other runs stopped building it, in seconds of `time.monotonic`.
    """

    task: P
    project: BuiltProject
    bazel: Bazel
    bytes_fetched: int
    start: float


def batches(projects: Iterable[P]) -> Iterator[list[P]]:
    """Split projects into batches with unique names: a workspace identifies a project by its name alone."""
    left = list(projects)
    while left:
        now = {project.plan.module: project for project in reversed(left)}
        batch = [project for project in left if now[project.plan.module] is project]
        yield batch
        left = [project for project in left if now[project.plan.module] is not project]


def free_first(batch: Sequence[P]) -> Iterator[list[P]]:
    """Split a batch: first the projects that no other run is building, then each project to wait for, alone."""
    busy = [is_busy(project.directory, project.plan) for project in batch]
    if free := [project for project, waits in zip(batch, busy, strict=True) if not waits]:
        yield free
    yield from ([project] for project, waits in zip(batch, busy, strict=True) if waits)


@contextmanager
def placed(
    batch: Sequence[P],
    releases: Releases,
    output: Output,
    *,
    gcc: Callable[[P], bool],
    apart: Callable[[P], Hashable] = lambda _: None,
) -> Iterator[tuple[list[list[Placed[P]]], dict[Path, DriverError]]]:
    """Put projects into their workspaces, with the archives they need; no other run builds them meanwhile.

    Args:
        batch: projects of different names.
        releases: the releases to build for.
        output: where progress is shown.
        gcc: whether gcc compiles all C++ of a project.
        apart: returns equal values for projects that one call of Bazel can build if they share a workspace.

    Returns:
        Lists of projects that one call of Bazel can build, and the errors of projects that cannot be built.

    Raises:
        DriverError: Bazel is missing; INTERRUPTED.
    """
    failures: dict[Path, DriverError] = {}
    groups: dict[Hashable, list[Placed[P]]] = {}
    found: dict[Path, Bazel] = {}
    with ExitStack() as stack:
        # In the order of their names, so that two runs cannot wait for each other.
        copies = {
            task.directory: stack.enter_context(one_at_a_time(task.directory, task.plan, output))
            for task in sorted(batch, key=lambda task: task.plan.module)
        }
        start = time.monotonic()
        for task in batch:
            try:
                workspace = workspace_for(task.directory, task.plan, releases, copies[task.directory])
            except DriverError as failure:
                failures[task.directory] = failure
                continue
            root = workspace.root
            with beside(partial(_fetched, task, releases, output, gcc(task))) as coming:
                found[root] = found.get(root) or find_bazel(root, output)
                try:
                    fetched = coming.result()
                except DriverError as failure:
                    if failure.diagnostics[0].code is Code.INTERRUPTED:
                        raise
                    failures[task.directory] = failure
                    continue
            project = BuiltProject(directory=task.directory, plan=task.plan, chosen=task.chosen, workspace=workspace)
            bytes_fetched = sum(part.bytes_fetched for part in fetched)
            if found[root].bytes_fetched:
                bytes_fetched += found[root].bytes_fetched
                found[root] = replace(found[root], bytes_fetched=0)
            groups.setdefault((root, apart(task)), []).append(Placed(task, project, found[root], bytes_fetched, start))
        yield [*groups.values()], failures


def _fetched(
    task: _Planned,
    releases: Releases,
    output: Output,
    gcc: bool,  # noqa: FBT001  (`partial` passes it)
    work: Beside[list[Fetched]],
) -> list[Fetched]:
    """The archives that a build needs, in the store; see `fetch_all`."""
    wanted = archives(task.plan, task.chosen, releases.lock, gcc=gcc)
    return fetch_all(wanted, output, stop=work.stopped)
