"""Further kernels that a command finds on this machine, such as those that build.toml lists in `kernel-depends`."""

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
"""The variable of the `kernels` client with kernels that it does not look up on the Hub: `OWNER/NAME=DIR:...`."""


class Kernel(NamedTuple):
    """A kernel of this machine.

    Attributes:
        directory: of its project.
        name: of its project.
        version: its major version.
        repositories: the names by which others ask for it.
        depends: entries of `kernel-depends`, as metadata.json has them.
    """

    directory: Path
    name: str
    version: int
    repositories: tuple[str, ...]
    depends: tuple[Mapping[str, Any], ...]


def further_kernels(directory: Path, named: Sequence[Path], machine: Machine, releases: Releases) -> tuple[Path, ...]:
    """The projects to build for a project besides itself.

    Args:
        directory: of the project.
        named: directories of projects, or of directories with projects; if none, the client looks for all on the Hub.
        machine: that the variants are for.
        releases: to build for.

    Raises:
        DriverError: USAGE as `check_depends`; what is wrong with a project; NO_SUCH_VARIANT if one has none for this
            machine.
    """
    if not named:
        return ()
    own, *others = (_kernel(path, machine, releases) for path in find_projects([directory, *named]))
    check_depends([own, *others], os.environ.get(LOCAL, ""))
    return tuple(kernel.directory for kernel in others)


def _kernel(directory: Path, machine: Machine, releases: Releases) -> Kernel:
    """What a project is, and what its variant for a machine depends on."""
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
    """See that kernels find all that they depend on among themselves, and nothing on the Hub.

    Args:
        kernels: which.
        overrides: what `LOCAL_KERNELS` says.

    Raises:
        DriverError: USAGE if one is missing, has another version, is there twice or depends on itself.
    """
    known = dict[str, Kernel]()
    for kernel in kernels:
        for repository in kernel.repositories:
            twin = known.setdefault(repository, kernel)
            if twin is not kernel:
                message = f"{twin.directory} and {kernel.directory} are both `{repository}`"
                raise error(Code.USAGE, message, help=f"leave one of them out of {OPTION}")
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
    """See that no kernel depends on itself.

    Args:
        kernel: to look at.
        known: all kernels, by the names of their repositories.
        above: the names of those that depend on it.
    """
    if kernel.name in above:
        path = " -> ".join([*above[above.index(kernel.name) :], kernel.name])
        raise error(Code.USAGE, f"kernels depend on themselves: {path}", help="the `kernels` client loads none of them")
    for depend in kernel.depends:
        if (found := known.get(depend["repo-id"])) is not None:
            _check_cycles(found, known, (*above, kernel.name))
