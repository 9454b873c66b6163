"""Builds the variant that this machine runs into a directory for each id, so that builds stand side by side."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.local_variant import has_device_code, local_variant
from py_driver.authoring.machine import archs_of_variables, python_of_torch
from py_driver.building.build import Built, Options, build
from py_driver.building.variant_dir import DEV, read_metadata
from py_driver.matrix.installed_python import python_at
from py_driver.plan.plan import make_plan
from py_driver.plan.project import load
from py_driver.system.files import keep_from_git, write, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from py_driver.authoring.machine import Machine
    from py_driver.bazel.invocation import Choices
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.for_pythons import Pythons
    from py_driver.plan.plan import Plan, Variant
    from py_driver.plan.project import Project

_CURRENT: Final = "current.{}.json"
"""The file, beside these builds, that says which one is the newest of a variant, for `rules_torch_kernels.live`."""

_KEPT: Final = 50
"""How many builds stay: a process that follows may still import from an earlier one."""

_OWNER: Final = "kernels-community"
"""Whose kernel a project is taken for that does not say where it is published: tests of upstream's use that."""


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
    if has_device_code(plan, variant):
        named = archs or archs_of_variables(plan, machine, listed or {}, output if after is None else None)
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
    result = replace(as_dev_build(directory, project, plan, built, done.seconds), kind=kind, server=done.server)
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


def as_dev_build(directory: Path, project: Project, plan: Plan, built: Built, seconds: float) -> DevBuild:
    """A variant that was built, as the commands for daily work know it.

    Args:
        directory: of the project.
        project: that is there.
        plan: of it.
        built: the variant.
        seconds: that the build took.
    """
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
