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
    """What is in the places where builds of a project write.

    Attributes:
        written: variants in `build/`, leftovers of builds that were killed, and `.dev/`.
        foreign: other files and directories in `build/`; they stay.
        build: the directory of the variants, which goes when it is empty.
    """

    written: tuple[Path, ...]
    foreign: tuple[Path, ...]
    build: Path


def outputs_of(directory: Path) -> Outputs:
    """The outputs of a project.

    A link in the place of a directory is the user's own, and is foreign.

    Args:
        directory: of the project.
    """
    build, dev = directory / BUILD, directory / DEV
    entries = sorted(build.iterdir()) if is_directory(build) and not build.is_symlink() else []
    written = [path for path in entries if not path.is_symlink() and path.is_dir() and _is_made(path)]
    foreign = [path for path in entries if path not in written] + [path for path in (build, dev) if path.is_symlink()]
    slices = directory / SLICES
    written += [path for path in (*slices.glob("*/*"), *slices.glob(".*")) if path.is_dir() and _is_made(path)]
    written += [dev] if is_directory(dev) and not dev.is_symlink() else []
    return Outputs(tuple(written), tuple(foreign), build)


def _is_made(path: Path) -> bool:
    return is_identifier(path.name) or is_leftover(path)


def remove_all(found: Iterable[Outputs]) -> None:
    """Remove outputs, and directories of variants that are then empty.

    Raises:
        DriverError: PERMISSION if something cannot be removed.
    """
    for outputs in found:
        for path in outputs.written:
            remove(path)
            if path.exists():
                raise error(Code.PERMISSION, f"cannot remove {path}", help="make it and its directory writable")
        if is_directory(outputs.build) and not outputs.build.is_symlink() and not any(outputs.build.iterdir()):
            outputs.build.rmdir()
