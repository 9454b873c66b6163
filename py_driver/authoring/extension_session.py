"""Runs commands and tests with a setup.py project, built for this machine, as if it were installed."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.local_variant import local_variant
from py_driver.authoring.machine import python_of_torch
from py_driver.authoring.session import BUILDS, launch, python_environment, wait
from py_driver.building.ahead import say_unused_archs
from py_driver.building.build import Options
from py_driver.building.extension import build_extension, candidates, plan_extension
from py_driver.building.variant_dir import DEV
from py_driver.errors import Code, error
from py_driver.extensions.binding import Bindings
from py_driver.matrix.installed_python import python_at
from py_driver.plan.precompiled import with_precompiled
from py_driver.publishing.extension_tree import lay_out, pack
from py_driver.spelling import near_path
from py_driver.system.client import CLIENT
from py_driver.system.files import keep_from_git, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.authoring.machine import Machine
    from py_driver.bazel.invocation import Choices
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

TESTS: Final = ("tests", "test")
"""Directories with the tests of a project."""

_INSTALLED: Final = "installed"
"""The directory for installed projects, in the directory of builds for this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledExtension:
    """An installed project.

    Attributes:
        directory: the project's directory.
        path: the directory to import from.
        variant: its identifier.
        python: an interpreter with the torch that it was built for, and pytest.
        ran: the number of actions that ran for it.
    """

    directory: Path
    path: Path
    variant: str
    python: str
    ran: int

    def as_json(self) -> dict[str, Any]:
        """The project as a value for JSON."""
        return {"variant": self.variant, "path": str(self.path.absolute()), "actions": self.ran}


def install_extension(  # noqa: PLR0913  (the project, the machine, and the options)
    directory: Path,
    machine: Machine,
    releases: Releases,
    output: Output,
    choices: Choices,
    archs: Sequence[str] = (),
    way: str = "",
    python: str = "",
) -> InstalledExtension:
    """Build a project for a machine, and install it into a directory.

    Args:
        directory: the project's directory.
        machine: the machine that will run it.
        releases: the releases to build for.
        output: shows progress.
        choices: the options of the build.
        archs: GPU architectures to build for; the machine's own if empty.
        way: the binding of modules, see `Bindings`.
        python: the interpreter that it is for; if empty, an interpreter with the machine's torch.

    Raises:
        DriverError: NO_SUCH_VARIANT if no variant fits; the errors of the build.
    """
    chosen = tuple(archs or machine.archs)
    variant = local_variant(candidates(directory, releases.matrix), machine.torch, chosen, machine.family)
    usable = chosen if variant.configuration.family != "cpu" else ()
    options = Options(archs=usable, local=True, choices=choices)
    python = python or python_of_torch([variant.configuration], machine, releases, output)
    bindings = Bindings(way, lambda _: (python_at(Path(python), releases.matrix),))
    extension = plan_extension(directory, [variant.name], releases, output, options, bindings)
    say_unused_archs(archs, [variant for plan in extension.plans for variant in plan.variants], output)
    if not choices.remote.is_used:
        plans = tuple(with_precompiled(plan, directory) for plan in extension.plans)
        extension = replace(extension, plans=plans)
    [part] = build_extension(extension, releases, output, options)
    root = directory / DEV
    with writing(root):
        root.mkdir(exist_ok=True)
        keep_from_git(root)
        with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
            path, _ = lay_out(pack(part, releases, None, Path(scratch)), root / _INSTALLED, part.name)
    ran = sum(built.actions.run for built in part.modules)
    return InstalledExtension(directory=directory, path=path, variant=part.name, python=python, ran=ran)


def run_with(installed: InstalledExtension, command: Sequence[str], directory: Path | None = None) -> int:
    """Run a command that imports an installed project, and return its exit code.

    Args:
        installed: the project.
        command: the command.
        directory: its working directory; this process's if None.

    Raises:
        DriverError: SET_UP if it cannot be started.
    """
    environ = python_environment(installed.python, [CLIENT, installed.path.absolute()])
    builds = json.dumps({str(installed.directory.resolve()): installed.as_json()})
    return wait(launch(command, {**environ, BUILDS: builds}, directory=directory))


@contextmanager
def copied_tests(directory: Path) -> Iterator[tuple[Path, str]]:
    """A directory with a copy of a project's tests, so that the project's sources do not hide the installed package.

    Args:
        directory: the project's directory.

    Yields:
        The directory with the copy, and the name of the tests in it.

    Raises:
        DriverError: FILE_MISSING if the project has no tests.
    """
    name = next((name for name in TESTS if (directory / name).is_dir()), "")
    if not name:
        advice = "write tests/test_NAME.py, or run another command with `driver run`"
        tests = directory / TESTS[0]
        raise error(Code.FILE_MISSING, f"{tests} is missing", help=near_path(tests) or advice)
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        shutil.copytree(directory / name, Path(scratch, name), ignore=shutil.ignore_patterns("__pycache__"))
        if (conftest := directory / "conftest.py").is_file():
            shutil.copyfile(conftest, Path(scratch, conftest.name))
        yield Path(scratch), name
