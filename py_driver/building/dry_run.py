"""The plan of a build, without waiting for other builds and without Bazel."""

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
    """The planned build of a project.

    Attributes:
        directory: the directory of the project.
        variants: the variants that it would build, each with its estimate.
    """

    directory: Path
    variants: tuple[tuple[Variant, Part], ...]


def dry_run(
    projects: Sequence[Prepared], releases: Releases, output: Output, options: Options
) -> tuple[Estimate, list[Planned]]:
    """Estimate a build as it would run without any other build.

    Args:
        projects: the projects to build.
        releases: the releases to build for.
        output: where to print the estimate.
        options: how to build.

    Returns:
        The estimate for all together, and the plan of each project.

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
