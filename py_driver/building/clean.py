"""The outputs that builds have written into a project, and their removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.building.variant_dir import BUILD, DEV, SLICES
from py_driver.errors import Code, error
from py_driver.matrix.configurations import is_identifier
from py_driver.system.files import is_directory
from py_driver.system.scratch import is_leftover, remove

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Outputs(NamedTuple):
    """The contents of the places where builds of a project write.

    Attributes:
        written: variants in `build/`, slices in `build-slices/`, leftovers of builds that were killed, and `.dev/`.
        foreign: other files and directories in these; they stay.
        places: the directories of variants and slices, in the order in which they are removed when empty.
    """

    written: tuple[Path, ...]
    foreign: tuple[Path, ...]
    places: tuple[Path, ...]


def outputs_of(directory: Path) -> Outputs:
    """The outputs of a project.

    A link instead of a directory is the user's own, and counts as foreign.

    Args:
        directory: the directory of the project.
    """
    build, dev, slices = directory / BUILD, directory / DEV, directory / SLICES
    places = [build, *(path for path in _entries(slices) if _is_own(path) and not _is_made(path)), slices]
    entries = [path for folder in places for path in _entries(folder) if path not in places]
    written = [path for path in entries if _is_own(path) and _is_made(path)]
    links = [path for path in (build, dev, slices) if path.is_symlink()]
    foreign = [*(path for path in entries if path not in written), *links]
    written += [dev] if _is_own(dev) else []
    return Outputs(tuple(written), tuple(foreign), tuple(places))


def _entries(directory: Path) -> list[Path]:
    """The entries of a directory; empty for a link."""
    return sorted(directory.iterdir()) if _is_own(directory) else []


def _is_own(path: Path) -> bool:
    """Whether a path is a directory, and not a link."""
    return is_directory(path) and not path.is_symlink()


def _is_made(path: Path) -> bool:
    return is_identifier(path.name) or is_leftover(path)


def remove_all(found: Iterable[Outputs]) -> None:
    """Remove outputs, and directories of variants that are empty afterwards.

    Raises:
        DriverError: PERMISSION if a path cannot be removed.
    """
    for outputs in found:
        for path in outputs.written:
            remove(path)
            if path.exists():
                raise error(Code.PERMISSION, f"cannot remove {path}", help="make it and its directory writable")
        for folder in outputs.places:
            if _is_own(folder) and not _entries(folder):
                folder.rmdir()
