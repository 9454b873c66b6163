"""Several variants of a project in one call of Bazel, of which some may fail: what came of each."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.actions.author_paths import Project
from py_driver.actions.executed import cells_of
from py_driver.actions.workspace import one_at_a_time, workspace_for
from py_driver.bazel.find import find_bazel
from py_driver.bazel.invocation import KEEP_GOING, building, without_check
from py_driver.bazel.invocation import build as build_targets
from py_driver.bazel.remote import reachable
from py_driver.bazel.servers import free_server
from py_driver.building.build import Built
from py_driver.building.collect import check_place, collect
from py_driver.building.file_names import true_names
from py_driver.building.selection import archives
from py_driver.diagnosing.messages import Teller
from py_driver.errors import Code, DriverError
from py_driver.fetch.prefetch import fetch_all
from py_driver.matrix.cells import spell
from py_driver.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.actions.executed import CellSteps
    from py_driver.bazel.invocation import Choices
    from py_driver.bazel.run import Completed
    from py_driver.bazel.servers import Server
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant


@dataclass(frozen=True, kw_only=True, slots=True)
class Each:
    """What came of variants.

    Attributes:
        results: of each, by its name: it was built, or why not.
        actions: how many compile steps ran for all of them together.
        server: of Bazel, that built them.
    """

    results: dict[str, Built | DriverError]
    actions: int
    server: str


def build_each(  # noqa: PLR0913  (what, for whom, how, where it goes and where it is shown)
    directory: Path,
    plan: Plan,
    releases: Releases,
    output: Output,
    choices: Choices,
    place: Callable[[Variant], Path],
    *,
    checked: str = "",
) -> Each:
    """Build all variants of a plan for use on this machine.

    Args:
        directory: of the project.
        plan: of it, with those variants alone.
        releases: to build for.
        output: where progress and errors are shown.
        choices: how.
        place: the directory, of its own for each, that a variant goes into, under the name of its cell.
        checked: as `Options.checked`.

    Raises:
        DriverError: what keeps all of them from being built.
    """
    with one_at_a_time(directory, plan, output) as copy:
        workspace = workspace_for(directory, plan, releases, copy)
        project = Project(directory=directory, plan=plan, chosen=plan.variants, workspace=workspace)
        fetch_all(archives(plan, plan.variants, releases.lock, gcc=choices.gcc), output)
        with free_server(find_bazel(workspace.root, output), workspace.root, output) as server:
            teller = Teller(projects=[project], choices=replace(choices, keep_going=True), output=output)
            done, counted = _run(server, project, choices, teller, checked)
            if done.failure is not None and done.failure.diagnostics[0].code is Code.INTERRUPTED:
                raise done.failure
            built = {one.variant: one for one in counted}
            failed = {label.lstrip("@") for label in done.events.failed}
            root = done.events.exec_root or workspace.root
            results: dict[str, Built | DriverError] = {}
            for variant in plan.variants:
                label = workspace.label(variant.name)
                if label not in failed and variant.name in built:
                    results[variant.name] = _collected(project, variant, built[variant.name], root, place(variant))
                elif done.failure is None or not (errors := teller.failure_of(project, label, done.events)):
                    raise done.failure or AssertionError(label)
                else:
                    results[variant.name] = DriverError(errors)
    return Each(results=results, actions=sum(one.run for one in counted), server=server.name)


def _run(
    server: Server, project: Project, choices: Choices, teller: Teller, checked: str
) -> tuple[Completed, list[CellSteps]]:
    """Let Bazel build the variants; what came of that, and the steps of each that has some."""
    count = len(project.chosen)
    with tempfile.TemporaryDirectory(prefix="driver-") as name, reachable(choices.remote) as remote:
        log = Path(name, "spawns.bin")
        args = building(replace(choices, remote=remote), server.running, Path(name), log, teller.output)
        args += [KEEP_GOING, *(without_check(server.bazel) if server.name == checked else [])]
        done = build_targets(
            server.bazel,
            project.workspace.root,
            [*project.variants],
            teller.output,
            title=f"building {counted(count, 'configuration')} of {project.plan.name}",
            options=args,
            check=False,
            explain=teller.explain,
        )
        if done.failure is None:
            teller.warn(done.events)
        server.built_in(done.events.exec_root)
        return done, cells_of(done.events, [*project.variants.values()], log)[0]


def _collected(project: Project, variant: Variant, counted: CellSteps, root: Path, place: Path) -> Built:
    """Copy a variant out of Bazel's outputs."""
    check_place(place)
    with true_names(root / counted.directory, project.plan) as made:
        path, size = collect(made, place, spell(variant.cell))
    return Built(variant=variant, path=path, size=size, steps=counted)
