"""The signed statements of a project about its variants as they are, which are published with the variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.building.variant_dir import SIGNATURE
from py_driver.publishing.rebuilt_statement import STATEMENTS, SUFFIX, files_stated
from py_driver.publishing.release import make_file
from py_driver.system.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.publishing.release import BuiltVariant, File


def shipped_statements(directory: Path, built: Iterable[BuiltVariant]) -> tuple[list[File], list[str]]:
    """The statements about variants, and a note for each statement about other files.

    Signatures are not judged here: users who load the variants choose the keys that they trust.

    Args:
        directory: the directory of the project.
        built: the variants.

    Raises:
        DriverError: PERMISSION if a statement cannot be read.
    """
    found, notes = [], []
    for variant in built:
        files = {file.path: file.sha256 for file in variant.files if not file.path.endswith(f"/{SIGNATURE}")}
        own = directory / STATEMENTS / variant.name
        for path in sorted(own.glob(f"*{SUFFIX}")):
            with reading(path):
                content = path.read_bytes()
            if files_stated(content) == files:
                found.append(make_file(f"{STATEMENTS}/{variant.name}/{path.name}", content))
            else:
                notes.append(f"{path} is for other files, and stays here")
    return found, notes
