"""Further kernels that a command finds on this machine, such as the `kernel-depends` of build.toml."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.authoring.dev_build import repositories_of
from py_driver.authoring.local_builds import local
from py_driver.errors import Code, error
from py_driver.plan.projects import find_projects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from py_driver.authoring.machine import Machine
    from py_driver.matrix.releases import Releases

OPTION = "--with"
"""The option that names their directories."""

LOCAL = "LOCAL_KERNELS"
"""The variable of the `kernels` client with local replacements for kernels on the Hub: `OWNER/NAME=DIR:...`."""


class Kernel(NamedTuple):
    """A kernel on this machine.

    Attributes:
        directory: its project's directory.
        name: its project's name.
        version: its major version.
        repositories: the names by which others ask for it.
        depends: the entries of `kernel-depends`, as in metadata.json.
    """

    directory: Path
    name: str
    version: int
    repositories: tuple[str, ...]
    depends: tuple[Mapping[str, Any], ...]


def further_kernels(directory: Path, named: Sequence[Path], machine: Machine, releases: Releases) -> tuple[Path, ...]:
    """The further projects to build for a project.

    Args:
        directory: the project's directory.
        named: directories of projects, or directories that contain projects; if empty, the client looks for all kernels
            on the Hub.
        machine: the machine that the variants are for.
        releases: the releases to build for.

    Raises:
        DriverError: USAGE as in `check_depends`; the errors of a project; NO_SUCH_VARIANT if a project has no variant
            for this machine.
    """
    if not named:
        return ()
    own, *others = (_kernel(path, machine, releases) for path in find_projects([directory, *named]))
    check_depends([own, *others], os.environ.get(LOCAL, ""))
    return tuple(kernel.directory for kernel in others)


def _kernel(directory: Path, machine: Machine, releases: Releases) -> Kernel:
    """The kernel of a project, with the dependencies of its variant for a machine."""
    found = local(directory, machine, releases)
    manifest = found.project.manifest
    return Kernel(
        directory=directory,
        name=manifest.name.value,
        version=manifest.version,
        repositories=repositories_of(manifest),
        depends=tuple(found.variant.metadata["kernel-depends"]),
    )


def check_depends(kernels: Sequence[Kernel], overrides: str = "") -> None:
    """Check that kernels find all their dependencies among themselves, none on the Hub.

    Args:
        kernels: the kernels.
        overrides: the value of `LOCAL_KERNELS`.

    Raises:
        DriverError: USAGE if a kernel is missing, has another version, is duplicate or depends on itself.
    """
    known = dict[str, Kernel]()
    for kernel in kernels:
        for repository in kernel.repositories:
            twin = known.setdefault(repository, kernel)
            if twin is not kernel:
                message = f"{twin.directory} and {kernel.directory} are both `{repository}`"
                raise error(Code.USAGE, message, help=f"remove one of them from {OPTION}")
    elsewhere = {entry.partition("=")[0] for entry in overrides.split(":")}
    for kernel in kernels:
        for depend in kernel.depends:
            repository = depend["repo-id"]
            found = known.get(repository)
            if found is None and repository in elsewhere:
                continue
            if found is None:
                raise error(
                    Code.USAGE,
                    f"`{kernel.name}` depends on `{repository}`, which no directory of {OPTION} is",
                    help=f'add {OPTION} DIR for it; its build.toml has `repo-id = "{repository}"` in [general.hub]',
                )
            if "version" in depend and depend["version"] != found.version:
                message = f"`{kernel.name}` depends on version {depend['version']} of `{repository}`"
                raise error(Code.USAGE, f"{message}, and {found.directory} has version {found.version}")
    for kernel in kernels:
        _check_cycles(kernel, known, ())


def _check_cycles(kernel: Kernel, known: Mapping[str, Kernel], above: tuple[str, ...]) -> None:
    """Check that no kernel depends on itself.

    Args:
        kernel: the kernel.
        known: all kernels, by repository.
        above: the names of the kernels that depend on it.
    """
    if kernel.name in above:
        path = " -> ".join([*above[above.index(kernel.name) :], kernel.name])
        raise error(Code.USAGE, f"kernels depend on themselves: {path}", help="the `kernels` client loads none of them")
    for depend in kernel.depends:
        if (found := known.get(depend["repo-id"])) is not None:
            _check_cycles(found, known, (*above, kernel.name))
