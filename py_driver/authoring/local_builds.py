"""Builds configurations of the variant for this machine in one call of Bazel."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py_driver.authoring.dev_build import DevBuild, as_dev_build
from py_driver.authoring.local_variant import has_device_code, local_variant
from py_driver.authoring.machine import python_of_torch
from py_driver.building.batches import placed
from py_driver.building.build import Built, Prepared
from py_driver.building.collect import check_place, collect
from py_driver.building.file_names import true_names
from py_driver.building.session import session
from py_driver.building.variant_dir import DEV
from py_driver.errors import DriverError
from py_driver.matrix.configurations import spell
from py_driver.output import counted
from py_driver.plan.narrow import narrowed
from py_driver.plan.plan import make_plan
from py_driver.plan.project import load
from py_driver.system.files import keep_from_git, writing

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.authoring.machine import Machine
    from py_driver.bazel.invocation import Choices
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant
    from py_driver.plan.project import Project


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """The variant of a project for a machine, before it is built.

    Attributes:
        directory: the project's directory.
        project: the project.
        plan: its plan, with device code for that machine alone.
        variant: the variant.
    """

    directory: Path
    project: Project
    plan: Plan
    variant: Variant


def local(directory: Path, machine: Machine, releases: Releases) -> Local:
    """The variant of a project for a machine.

    Raises:
        DriverError: NO_SUCH_VARIANT if no variant fits; the errors of the project.
    """
    project = load(directory, releases)
    plan = make_plan(project, releases.matrix)
    variant = local_variant(plan, machine.torch, machine.archs, machine.family)
    if machine.archs and has_device_code(plan, variant):
        plan = narrowed(plan, machine.archs)
        variant = next(planned for planned in plan.variants if planned.configuration == variant.configuration)
    return Local(directory=directory, project=project, plan=plan, variant=variant)


@dataclass(frozen=True, kw_only=True, slots=True)
class DevBuilds:
    """Configurations of a variant that were built for this machine.

    Attributes:
        results: the build, or the reason of its failure, by name.
        actions: the number of actions that ran for all of them.
    """

    results: dict[str, DevBuild | DriverError]
    actions: int


def dev_builds(of: Local, releases: Releases, output: Output, choices: Choices, *, into: str) -> DevBuilds:
    """Build configurations of the variant for a machine in one call of Bazel.

    Args:
        of: the variant, with a plan of its configurations: see `with_configurations`.
        releases: the releases to build for.
        output: shows progress and errors.
        choices: the options of the build.
        into: a directory beside the builds for this machine, in which each gets a directory of its name.

    Raises:
        DriverError: an error that prevents all builds.
    """
    start, root = time.monotonic(), of.directory / DEV
    task = Prepared(directory=of.directory, plan=of.plan, chosen=of.plan.variants)
    with placed([task], releases, output, gcc=lambda _: choices.gcc) as (groups, failures):
        for failure in failures.values():
            raise failure
        [[there]] = groups
        project, title = there.project, f"building {counted(len(of.plan.variants), 'configuration')} of {of.plan.name}"
        with session(there.bazel, project.workspace.root, output) as bazel:
            batch = bazel.build([project], replace(choices, keep_going=True), title=title)
            batch.raise_interruption()
            [outcome] = batch.outcomes()
            built, failed = {counts.variant: counts for counts in outcome.counts}, batch.failed(project)
            found: dict[str, Built | DriverError] = {}
            for variant in of.plan.variants:
                if label := failed.get(variant.name):
                    if (why := batch.variant_failure(project, label)) is None:
                        raise outcome.failure or AssertionError(label)
                    found[variant.suffix.removeprefix("-")] = why
                    continue
                counts, target = built[variant.name], root / into / variant.suffix.removeprefix("-")
                check_place(target)
                with true_names(batch.root / counts.directory, of.plan) as named:
                    path, size = collect(named, target, spell(variant.configuration))
                found[target.name] = Built(variant=variant, path=path, size=size, actions=counts)
    seconds = time.monotonic() - start
    with writing(root):
        keep_from_git(root)
    results = {
        name: result
        if isinstance(result, DriverError)
        else as_dev_build(of.directory, of.project, of.plan, result, seconds)
        for name, result in found.items()
    }
    return DevBuilds(results=results, actions=sum(counts.run for counts in outcome.counts))


def python_for(of: Local, machine: Machine, releases: Releases, output: Output) -> str:
    """An interpreter for a variant before it is built; see `python_of_torch`."""
    return python_of_torch([of.variant.configuration], machine, releases, output)
