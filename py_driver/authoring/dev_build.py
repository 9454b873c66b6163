"""Builds the one variant that this machine runs, into a directory for each id, so that versions stand side by side."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.local_variant import local_variant, usable_archs
from py_driver.building.batches import placed
from py_driver.building.build import Built, Options, Prepared, build
from py_driver.building.collect import check_place, collect
from py_driver.building.file_names import true_names
from py_driver.building.installed_torch import Torch, importable_torch, python_on, python_with
from py_driver.building.session import session
from py_driver.building.variant_dir import DEV, read_metadata
from py_driver.errors import Code, DriverError, error
from py_driver.matrix.configurations import spell
from py_driver.matrix.installed_python import python_at
from py_driver.output import counted
from py_driver.plan.narrow import narrowed, served
from py_driver.plan.plan import make_plan
from py_driver.plan.project import load
from py_driver.system.files import keep_from_git, write, writing
from py_driver.system.gpus import native_archs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from py_driver.bazel.invocation import Choices
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.for_pythons import Pythons
    from py_driver.plan.plan import Plan, Variant
    from py_driver.plan.project import Project

_CURRENT: Final = "current.{}.json"
"""The file, beside these builds, that says which one is the newest of a variant, for `rules_torch_kernels.live`."""

TORCH_PYTHON: Final = "RULES_TORCH_KERNELS_TORCH_PYTHON"
"""Environment variable that names the Python whose torch is meant; `rules_torch_kernels.load` sets it."""

_KEPT: Final = 50
"""How many builds stay: a process that follows may still import from an earlier one."""

_OWNER: Final = "kernels-community"
"""Whose kernel a project is taken for that does not say where it is published: tests of upstream's use that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What a variant is to run with.

    Attributes:
        torch: which; its `python` has it installed, or is empty if the driver is to install it.
        archs: of the GPUs that this torch can use, as build.toml spells them.
        family: the backend that is wanted, `cpu`, `cuda` or `rocm`; any if empty.
    """

    torch: Torch
    archs: tuple[str, ...]
    family: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevBuild:
    """A variant that was built for this machine.

    Attributes:
        directory: of the project.
        name: of the project.
        version: its major version.
        module: the name of the Python package.
        repositories: the names on the Hub under which tests may ask for it.
        variant: which.
        unique_id: of its sources.
        path: its directory: `PROJECT/.dev/ID/VARIANT`.
        ran: how many actions ran for it.
        seconds: from beginning to end.
        kind: as `dev_build` has it.
        server: of Bazel, that built it.
        others: builds of further kernels that a command with this build finds.
    """

    directory: Path
    name: str
    version: int
    module: str
    repositories: tuple[str, ...]
    variant: Variant
    unique_id: str
    path: Path
    ran: int
    seconds: float
    kind: str = ""
    server: str = ""
    others: tuple[DevBuild, ...] = ()

    @property
    def pointer(self) -> Path:
        """The file that says which build of this variant and kind is the newest."""
        return self.directory / DEV / _CURRENT.format("-".join(filter(None, [self.variant.name, self.kind])))

    @property
    def backend(self) -> str:
        """What the `kernels` client calls its backend: `cpu`, `cuda` or `rocm`."""
        return self.variant.configuration.family

    def as_json(self) -> dict[str, Any]:
        """The build as a value for JSON."""
        return {
            "id": self.unique_id,
            "name": self.name,
            "version": self.version,
            "module": self.module,
            "variant": self.variant.name,
            "backend": self.backend,
            "path": str(self.path.absolute()),
            "actions": self.ran,
            "seconds": round(self.seconds, 3),
        }


def this_machine(version: str = "", family: str = "") -> Machine:
    """The torch and the GPUs of this machine.

    Args:
        version: a torch release that the driver is to install, e.g. `2.13`; if empty, one has to be installed.
        family: see `Machine`.

    Raises:
        DriverError: SET_UP if no torch is installed.
    """
    if version:
        return Machine(torch=Torch(python="", version=version, backend="cpu"), archs=(), family=family or "cpu")
    torch = importable_torch(os.environ.get(TORCH_PYTHON, ""))
    if torch is None:
        advice = "activate an environment that has torch, or let the driver install one: --torch 2.13"
        raise error(Code.SET_UP, "no python3 on PATH has torch", help=advice)
    archs = () if torch.backend == "cpu" or family == "cpu" else usable_archs(torch, _gpus())
    return Machine(torch=torch, archs=archs, family=family)


def _listed(
    plan: Plan, machine: Machine, listed: Mapping[str, Sequence[str]], output: Output | None
) -> tuple[str, ...]:
    """The architectures that variables name, for GPUs such as this machine has, for which there is device code.

    Args:
        plan: of the project.
        machine: which.
        listed: see `dev_build`.
        output: where to say that they are taken, or not; None says nothing.
    """
    found: dict[str, None] = {}
    for variable, archs in listed.items():
        usable = usable_archs(machine.torch, archs) if machine.archs else ()
        own = served(plan, usable)
        if output and usable:
            taken = f"--archs {','.join(own)} comes from {variable}" if own else f"{variable} is not used"
            others = [arch for arch in usable if arch not in own]
            output.say(f"note: {taken}" + (f": no device code for {', '.join(others)}" if others else ""))
        found.update(dict.fromkeys(own))
    return tuple(found)


def _gpus() -> tuple[str, ...]:
    """The architectures of this machine's GPUs; none if it has none."""
    try:
        return native_archs()
    except DriverError:
        return ()


def dev_build(  # noqa: PLR0913  (what, for whom, how, and where it is shown)
    directory: Path,
    machine: Machine,
    releases: Releases,
    output: Output,
    choices: Choices,
    *,
    archs: Sequence[str] = (),
    listed: Mapping[str, Sequence[str]] | None = None,
    change: Callable[[Plan], Plan] | None = None,
    into: str = "",
    kind: str = "",
    after: DevBuild | None = None,
    pybind: bool = False,
) -> DevBuild:
    """Build the variant that a machine runs.

    Args:
        directory: of the project.
        machine: which is to run it.
        releases: to build for.
        output: where progress is shown.
        choices: how.
        archs: GPU architectures to build for; if none, those that are listed, and else the machine's own.
        listed: architectures that variables of the environment name, by the variable; they count for GPUs that the
            machine has, and if the project has code for them.
        change: as `Options.change`.
        into: as `Options.into`; such a build is not the newest one for `rules_torch_kernels.live`, and stays.
        kind: in a word, how it differs from the usual build, e.g. `debug`; whoever follows that does not get this.
        after: the build of this process just before: files of toolchains count as unchanged since.
        pybind: whether the project is bound by pybind11: it is built for the Python that has the torch.

    Raises:
        DriverError: NO_SUCH_VARIANT if none fits, and all that `build` raises.
    """
    project = load(directory, releases, pybind=pybind)
    plan = make_plan(project, releases.matrix)
    variant = local_variant(plan, machine.torch, archs or machine.archs, machine.family)
    chosen: tuple[str, ...] = ()
    if _has_device_code(plan, variant):
        named = archs or _listed(plan, machine, listed or {}, output if after is None else None)
        chosen = tuple(named or machine.archs)
    checked = after.server if after else ""
    pythons = None
    if pybind:
        python = python_at(Path(python_of_torch([variant.configuration], machine, releases, output)), releases.matrix)
        pythons = _always(python)
    options = Options(
        archs=chosen, local=True, into=into, change=change, checked=checked, pythons=pythons, choices=choices
    )
    done = build(directory, [variant.name], releases, output, options)
    [built] = done.variants
    root = directory / DEV
    result = replace(_made(directory, project, plan, built, done.seconds), kind=kind, server=done.server)
    with writing(root):
        keep_from_git(root)
        if into:
            return result
        write(result.pointer, json.dumps(result.as_json(), indent=2).encode() + b"\n")
        _prune(root, result.path.parent)
    return result


def _always(python: Python) -> Pythons:
    """One Python for every configuration."""
    return lambda _: (python,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """The variant of a project that a machine runs, before it is built.

    Attributes:
        directory: of the project.
        project: that is there.
        plan: of it, with device code for that machine alone.
        variant: which.
    """

    directory: Path
    project: Project
    plan: Plan
    variant: Variant


def local(directory: Path, machine: Machine, releases: Releases) -> Local:
    """The variant of a project that a machine runs.

    Raises:
        DriverError: NO_SUCH_VARIANT if none fits; what is wrong with the project.
    """
    project = load(directory, releases)
    plan = make_plan(project, releases.matrix)
    variant = local_variant(plan, machine.torch, machine.archs, machine.family)
    if machine.archs and _has_device_code(plan, variant):
        plan = narrowed(plan, machine.archs)
        variant = next(planned for planned in plan.variants if planned.configuration == variant.configuration)
    return Local(directory=directory, project=project, plan=plan, variant=variant)


@dataclass(frozen=True, kw_only=True, slots=True)
class DevBuilds:
    """Configurations of a variant that were built for this machine.

    Attributes:
        results: by their names: the build, or why there is none.
        actions: how many actions ran for all of them.
    """

    results: dict[str, DevBuild | DriverError]
    actions: int


def dev_builds(of: Local, releases: Releases, output: Output, choices: Choices, *, into: str) -> DevBuilds:
    """Build configurations of the variant that a machine runs, in one call of Bazel.

    Args:
        of: the variant, with a plan of its configurations: see `with_configurations`.
        releases: to build for.
        output: where progress and errors are shown.
        choices: how.
        into: a directory beside the builds for use on this machine, in which each gets one of its name.

    Raises:
        DriverError: what keeps all of them from being built.
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
        name: result if isinstance(result, DriverError) else _made(of.directory, of.project, of.plan, result, seconds)
        for name, result in found.items()
    }
    return DevBuilds(results=results, actions=sum(counts.run for counts in outcome.counts))


def python_for(of: Local, machine: Machine, releases: Releases, output: Output) -> str:
    """An interpreter for a variant that is not built yet; see `python_of`."""
    return python_of_torch([of.variant.configuration], machine, releases, output)


def python_of(build: DevBuild, machine: Machine, releases: Releases, output: Output, more: Sequence[str] = ()) -> str:
    """An interpreter that has the machine's torch, the `kernels` client and pytest.

    Args:
        build: the variant.
        machine: with its torch.
        releases: with the lock.
        output: where progress is shown.
        more: requirements besides, as pip understands them.

    Raises:
        DriverError: the environment cannot be made; see `ensure_venv`.
    """
    return python_of_torch([build.variant.configuration], machine, releases, output, more)


def python_of_torch(
    configurations: Sequence[Configuration],
    machine: Machine,
    releases: Releases,
    output: Output,
    more: Sequence[str] = (),
) -> str:
    """An interpreter that has the machine's torch, and what tests of variants of some configurations need.

    Raises:
        DriverError: see `python_of`.
    """
    if machine.torch.python:
        return python_on(machine.torch, configurations, releases, output, more=more)
    return python_with(machine.torch.version, configurations, releases, output, more=more)


def _made(directory: Path, project: Project, plan: Plan, built: Built, seconds: float) -> DevBuild:
    """A variant that was built, as the commands for daily work know it."""
    return DevBuild(
        directory=directory,
        name=plan.name,
        version=project.manifest.version,
        module=plan.module,
        repositories=repositories_of(project.manifest),
        variant=built.variant,
        unique_id=str((read_metadata(built.path) or {})["id"]),
        path=built.path,
        ran=built.actions.run,
        seconds=seconds,
    )


def _has_device_code(plan: Plan, variant: Variant) -> bool:
    """Whether a variant is compiled for GPUs; one of Python files only is not."""
    groups = {group.name: group for group in plan.groups}
    return bool(variant.triton) or any(groups[name].archs.get(variant.configuration.backend) for name in variant.groups)


def repositories_of(manifest: Manifest) -> tuple[str, ...]:
    """The names on the Hub under which a project's tests may ask for it.

    Args:
        manifest: of the project.
    """
    own = manifest.hub.repo_id
    return tuple(dict.fromkeys([*([own] if own else []), f"{_OWNER}/{manifest.name.value}"]))


def _prune(root: Path, newest: Path) -> None:
    """Remove the oldest builds.

    Args:
        root: the directory of builds.
        newest: that was just made, perhaps again.
    """
    newest.touch()
    builds = [path for path in root.iterdir() if path.is_dir() and path.name.startswith("_")]
    for old in sorted(builds, key=lambda path: path.stat().st_mtime_ns)[:-_KEPT]:
        with suppress(OSError):
            shutil.rmtree(old)
