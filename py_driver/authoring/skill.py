"""The skill for coding assistants: a directory with a SKILL.md, in the form of https://agentskills.io."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.resources import resource, resources_below
from py_driver.system.files import reading, together, writing

if TYPE_CHECKING:
    from pathlib import Path

SKILLS: Final = "skills"
"""Its path in the data files."""


def write_skill(directory: Path) -> list[str]:
    """Write the skill of this version.

    Args:
        directory: the directory of an assistant's skills; created if missing.

    Returns:
        The written files, relative to it.

    Raises:
        DriverError: FOREIGN_FILE if a file with another text exists; NO_SPACE or PERMISSION.
    """
    texts = {path: resource(f"{SKILLS}/{path}") for path in resources_below(SKILLS)}
    for path, text in texts.items():
        file = directory / path
        if os.path.lexists(file) and not _holds(file, text):
            message = f"{file} would be overwritten"
            raise error(Code.FOREIGN_FILE, message, help="remove it if it is of another version of the driver")
    with together() as written:
        for path, text in texts.items():
            with writing(directory / path):
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
            written.write(directory / path, text.encode())
    return [*texts]


def _holds(file: Path, text: str) -> bool:
    """Whether a file contains exactly a text.

    Raises:
        DriverError: PERMISSION.
    """
    with reading(file):
        return file.is_file() and file.read_bytes() == text.encode()
