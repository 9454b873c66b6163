"""Preparation of a project for editors: for `driver ide`, `driver init` and builds."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from py_driver.editor.compile_commands import COMPILE_COMMANDS
from py_driver.editor.database import needs_network, recorded_variant, write_database
from py_driver.editor.settings import editor_files, write_settings
from py_driver.errors import DriverError
from py_driver.manifest.model import CURRENT, NEWEST
from py_driver.matrix.configurations import spell
from py_driver.plan.plan import make_plan, plan_directory
from py_driver.plan.project import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan


def prepare_settings(
    directory: Path, plans: Sequence[Plan], edition: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the settings of a project, which need no archive.

    Args:
        directory: the directory of the project.
        plans: the plans of the project.
        edition: the edition of build.toml; None for a project without one.

    Returns:
        The paths of settings that are the driver's, and of settings that are the user's own and stay unchanged.

    Raises:
        DriverError: what `write_settings` raises.
    """
    roots = dict.fromkeys(posixpath.dirname(plan.python_root) for plan in plans if edition is not None)
    known = min(max(edition, CURRENT), NEWEST) if edition is not None else None
    written, users = write_settings(directory, editor_files([root for root in roots if root], known))
    return tuple(written), tuple(users)


def begin(directory: Path, releases: Releases, output: Output) -> tuple[str, ...]:
    """Prepare a new project for editors, without the network; errors become warnings.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        output: where progress is shown.

    Returns:
        The paths of the files written in the project.
    """
    written: tuple[str, ...] = ()
    try:
        project = load(directory, releases)
        plan = make_plan(project, releases.matrix)
        written = prepare_settings(directory, [plan], project.manifest.edition)[0]
        if not needs_network(plan, releases) and write_database(directory, [plan], releases, output).sources:
            written = (COMPILE_COMMANDS, *written)
    except DriverError as problem:
        output.warn(f"editors lack {COMPILE_COMMANDS}: {problem.diagnostics[0].message}")
    return written


def refresh(
    directory: Path, releases: Releases, output: Output, plans: Sequence[Plan] = (), *, complete: bool = True
) -> None:
    """Update the compilation database of a project if it has one of the driver's; errors become warnings.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        output: where a warning is shown.
        plans: the plans of the project, if they exist already.
        complete: whether they include all its variants; if not, a database of a missing variant stays unchanged.
    """
    try:
        name = recorded_variant(directory / COMPILE_COMMANDS)
        if name is None:
            return
        known = plans or [plan_directory(directory, releases)]
        holders = [plan for plan in known if any(spell(variant.configuration) == name for variant in plan.variants)]
        if holders:
            write_database(directory, holders, releases, output, [name])
        elif complete:
            write_database(directory, known, releases, output)
    except DriverError as problem:
        output.warn(f"{COMPILE_COMMANDS} is not refreshed: {problem.diagnostics[0].message}")
