"""A git repository that a build calls git for and that its recording lacks, so that the commit is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Note, Span
from py_driver.recording.build_system import PYPROJECT, SETUP
from py_driver.recording.git_copy import GIT
from py_driver.recording.project_copy import entries
from py_driver.system.cache import cache_root
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMAND: Final = "git "
"""The prefix of a line of `Record.asked` for a command of git."""


def unseen_repository(directory: Path, asked: Iterable[str]) -> Note | None:
    """A note if a build calls git for a repository that is not copied with the project; else None.

    Such a repository is above the project's directory, or too large. A release of the package index has none.

    Args:
        directory: the directory of the project.
        asked: see `Record`; the lines of all configurations.

    Raises:
        DriverError: see `entries`.
    """
    if not any(line.startswith(_COMMAND) for line in asked):
        return None
    real = Path(os.path.realpath(directory))
    root = next((path for path in (real, *real.parents) if (path / GIT).exists()), None)
    if root is None or Path(os.path.realpath(cache_root())) in real.parents:
        return None
    if any(entry.path.partition("/")[0] == GIT for entry in entries(real)):
        return None
    script = SETUP if is_file(directory / SETUP) else PYPROJECT
    message = f"the build calls git, and the repository {root} is not copied: a version with the commit differs"
    return Note(message=message, span=Span(str(directory / script), 1, 1))
