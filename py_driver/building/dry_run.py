"""What a build would do, without a turn and without Bazel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.actions.estimate import Estimate, Part, Work, by_variant, together
from py_driver.building.ahead import look_ahead, say_plan, say_untested
from py_driver.building.selection import check_compression

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.building.build import Options, Prepared
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant


class Planned(NamedTuple):
    """What a build would do of a project.

    Attributes:
        directory: of the project.
        variants: that it would build, each with what is expected of it.
    """

    directory: Path
    variants: tuple[tuple[Variant, Part], ...]


def dry_run(
    projects: Sequence[Prepared], releases: Releases, output: Output, options: Options
) -> tuple[Estimate, list[Planned]]:
    """Say what a build would do, as it would itself if no other ran.

    Args:
        projects: what would be built.
        releases: to build for.
        output: where the plan is said.
        options: how.

    Returns:
        What is expected of all together, and of each project.

    Raises:
        DriverError: see `check_compression`.
    """
    chosen = [variant for project in projects for variant in project.chosen]
    check_compression(chosen, releases, options.choices.compression)
    say_untested(chosen, releases, output, options.choices)
    choices = options.choices
    jobs, memory = choices.at_once(), choices.memory(running=1)
    works = []
    for project in projects:
        ahead = look_ahead(project.directory, project.plan, project.chosen, releases, choices, memory)
        works.append(Work(str(project.directory), ahead.actions, ahead.history))
    expected = together(works, jobs=jobs, memory=memory)
    say_plan(expected, sum(len(project.chosen) for project in projects), jobs, memory, output)
    parts = by_variant(works)
    none = Part(0, 0, 0, 0.0)
    planned = [
        Planned(
            project.directory,
            tuple((own, parts.get((str(project.directory), own.name), none)) for own in project.chosen),
        )
        for project in projects
    ]
    return expected, planned
