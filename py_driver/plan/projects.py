"""Which projects directories hold: those with a build.toml, and those below a directory without one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code, error
from py_driver.plan.project import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCRIPTS = ("setup.py", "pyproject.toml")
"""The files that make a directory a project with extension modules, if it has no build.toml."""

_BUILD = ("build", "build-slices")
"""What is built stands there, and no project."""


def is_project(directory: Path) -> bool:
    """Whether a directory has a build.toml."""
    return os.path.lexists(directory / MANIFEST)


def is_extension(directory: Path) -> bool:
    """Whether a directory has a setup.py or pyproject.toml, and no build.toml."""
    return not is_project(directory) and any((directory / name).is_file() for name in SCRIPTS)


def projects_below(directory: Path) -> Iterator[Path]:
    """The projects below a directory, in the order of their paths.

    Not looked at is what is below a project, in a directory named `build` or `build-slices`, in a hidden one and behind
    a link.
    """
    for path, names, files in os.walk(directory, onerror=_fail):
        if MANIFEST in files and Path(path) != directory:
            names.clear()
            yield Path(path)
        names[:] = sorted(name for name in names if name not in _BUILD and not name.startswith("."))


def find_projects(directories: Iterable[Path]) -> list[Path]:
    """The projects that directories mean, each once: a directory itself if it has a build.toml, else those below it.

    A directory without either stands for itself: whoever reads it says that there is none.

    Raises:
        DriverError: PERMISSION if a directory cannot be read.
    """
    found: dict[str, Path] = {}
    for directory in directories:
        below = [directory] if is_project(directory) else [*projects_below(directory)] or [directory]
        for project in below:
            found.setdefault(os.path.realpath(project), project)
    return [*found.values()]


def _fail(problem: OSError) -> None:
    """Raise PERMISSION for a directory that cannot be read; one that is none is left to whoever reads the project."""
    if not isinstance(problem, FileNotFoundError | NotADirectoryError):
        raise error(Code.PERMISSION, f"cannot read {problem.filename}: {problem.strerror}") from None
