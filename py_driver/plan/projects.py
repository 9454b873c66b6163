"""The projects of directories: directories with a build.toml, or the projects below a directory without one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code, error
from py_driver.plan.project import MANIFEST
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCRIPTS = ("setup.py", "pyproject.toml")
"""Files of a project with extension modules, if it has no build.toml."""

_BUILD = ("build", "build-slices")
"""Directories for build outputs, which contain no project."""


def is_project(directory: Path) -> bool:
    """Whether a directory has a build.toml."""
    return os.path.lexists(directory / MANIFEST)


def is_extension(directory: Path) -> bool:
    """Whether a directory has a setup.py or pyproject.toml, and no build.toml."""
    return not is_project(directory) and any(is_file(directory / name) for name in SCRIPTS)


def projects_below(directory: Path) -> Iterator[Path]:
    """The projects below a directory, in the order of their paths.

    Skipped are directories below a project, directories named `build` or `build-slices`, hidden ones and links.
    """
    for path, names, files in os.walk(directory, onerror=_fail):
        if MANIFEST in files and Path(path) != directory:
            names.clear()
            yield Path(path)
        names[:] = sorted(name for name in names if name not in _BUILD and not name.startswith("."))


def find_projects(directories: Iterable[Path]) -> list[Path]:
    """The unique projects of directories: a directory itself if it has a build.toml, else the projects below it.

    A directory without any project stands for itself: reading it fails later.

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
    """Raise PERMISSION for a directory that cannot be read; a path that is no directory fails later."""
    if not isinstance(problem, FileNotFoundError | NotADirectoryError):
        raise error(Code.PERMISSION, f"cannot read {problem.filename}: {problem.strerror}") from None
