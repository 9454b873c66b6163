"""Builds the variant for this machine into a directory for each id, so that several builds exist side by side."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.local_variant import has_device_code, local_variant
from py_driver.authoring.machine import archs_of_variables, python_of_torch
from py_driver.building.ahead import say_unused_archs
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
"""The file beside the builds that names the newest build of a variant, for `rules_torch_kernels.live`."""

_KEPT: Final = 50
"""The number of builds to keep: a process that follows new builds may still import from an earlier one."""

_OWNER: Final = "kernels-community"
"""The default owner of a project without a repository on the Hub: upstream's tests use it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevBuild:
    """A variant that was built for this machine.

    Attributes:
        directory: the project's directory.
        name: the project's name.
        version: its major version.
        module: the name of the Python package.
        repositories: the names on the Hub under which tests may ask for it.
        variant: the variant.
        unique_id: the unique id of its sources.
        path: its directory: `PROJECT/.dev/ID/VARIANT`.
        ran: the number of actions that ran for it.
        seconds: the duration of the build.
        kind: as in `dev_build`.
        server: the Bazel server that built it.
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
        """The file that names the newest build of this variant and kind."""
        return self.directory / DEV / _CURRENT.format("-".join(filter(None, [self.variant.name, self.kind])))

    @property
    def backend(self) -> str:
        """Its backend for the `kernels` client: `cpu`, `cuda` or `rocm`."""
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


def dev_build(  # noqa: PLR0913  (the project, the machine, the options, and the output)
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
    """Build the variant for a machine.

    Args:
        directory: the project's directory.
        machine: the machine that will run it.
        releases: the releases to build for.
        output: shows progress.
        choices: the options of the build.
        archs: GPU architectures to build for; if empty, the listed ones, and otherwise the machine's own.
        listed: architectures from environment variables, by variable; they apply if the machine has such GPUs and the
            project has code for them.
        change: as `Options.change`.
        into: as `Options.into`; such a build is not the newest one for `rules_torch_kernels.live`, and stays.
        kind: a word for a special build, e.g. `debug`, which processes that follow the usual build do not load.
        after: the previous build of this process, since which files of toolchains count as unchanged.
        pybind: whether pybind11 binds the project, which is then built for the Python with the torch.

    Raises:
        DriverError: NO_SUCH_VARIANT if no variant fits; the errors of `build`.
    """
    project = load(directory, releases, pybind=pybind)
    plan = make_plan(project, releases.matrix)
    variant = local_variant(plan, machine.torch, archs or machine.archs, machine.family)
    chosen: tuple[str, ...] = ()
    if has_device_code(plan, variant):
        named = archs or archs_of_variables(plan, machine, listed or {}, output if after is None else None)
        chosen = tuple(named or machine.archs)
    elif after is None:
        say_unused_archs(archs, [variant], output)
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
    """An interpreter with the machine's torch, the `kernels` client and pytest.

    Args:
        build: the variant.
        machine: the machine, with its torch.
        releases: the releases, with the lock.
        output: shows progress.
        more: further requirements for pip.

    Raises:
        DriverError: the environment cannot be made; see `ensure_venv`.
    """
    return python_of_torch([build.variant.configuration], machine, releases, output, more)


def as_dev_build(directory: Path, project: Project, plan: Plan, built: Built, seconds: float) -> DevBuild:
    """A built variant as a DevBuild.

    Args:
        directory: the project's directory.
        project: the project.
        plan: its plan.
        built: the built variant.
        seconds: the duration of the build.
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
        manifest: the project's build.toml.
    """
    own = manifest.hub.repo_id
    return tuple(dict.fromkeys([*([own] if own else []), f"{_OWNER}/{manifest.name.value}"]))


def _prune(root: Path, newest: Path) -> None:
    """Remove the oldest builds.

    Args:
        root: the directory of builds.
        newest: the build that was just made, possibly not for the first time.
    """
    newest.touch()
    ages = {}
    for path in root.iterdir():
        with suppress(FileNotFoundError):  # another command of the project removes the oldest builds, too
            if path.is_dir() and path.name.startswith("_"):
                ages[path] = path.stat().st_mtime_ns
    for old in sorted(ages, key=ages.__getitem__)[:-_KEPT]:
        with suppress(OSError):
            shutil.rmtree(old)
