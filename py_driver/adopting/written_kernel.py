"""Writes the project of a kernel to disk, after checking it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.adopting.losses import Loss
from py_driver.errors import Code, DriverError, error
from py_driver.plan.plan import plan_directory
from py_driver.system.files import is_directory, together, writing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.adopting.adoption import Adoption
    from py_driver.matrix.releases import Releases


def check_target(directory: Path, target: Path, *, force: bool) -> None:
    """Check that a kernel may be written to a directory.

    Args:
        directory: the directory of the project.
        target: the directory of the kernel.
        force: whether files there may be overwritten.

    Raises:
        DriverError: FOREIGN_FILE if it has files; PATH_ESCAPES if it is the project's own directory.
    """
    if target.resolve() == directory.resolve():
        message = f"{target} is the project itself, whose files stay as they are"
        raise error(Code.PATH_ESCAPES, message, help="name another directory with --output")
    if os.path.lexists(target) and not is_directory(target):
        raise error(Code.FOREIGN_FILE, f"{target} is not a directory", help="name another one with --output")
    if not force and is_directory(target) and any(target.iterdir()):
        message = f"{target} is not empty"
        raise error(
            Code.FOREIGN_FILE, message, help="name another directory with --output, or use --force to overwrite files"
        )


def write_adoption(adoption: Adoption, target: Path, releases: Releases) -> list[Loss]:
    """Write a kernel, and check it as `driver check` does.

    Args:
        adoption: the kernel.
        target: its directory.
        releases: the releases to check it with.

    Returns:
        The errors of the check, as losses.

    Raises:
        DriverError: FOREIGN_FILE if a link leads out of the directory; NO_SPACE or PERMISSION.
    """
    for path in adoption.files:
        for parent in (target / path, *(target / path).parents):
            if parent != target and parent.is_relative_to(target) and parent.is_symlink():
                message = f"{parent} is a symbolic link; the driver writes into the kernel's own directories only"
                raise error(Code.FOREIGN_FILE, message, help="name another directory, or move the link away")
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        trial = Path(scratch).resolve() / "kernel"
        _write(trial, adoption.files)
        losses = []
        try:
            plan_directory(trial, releases)
        except DriverError as failure:
            for fault in failure.diagnostics:
                file = os.path.relpath(fault.span.file, trial) if fault.span else ""
                line = fault.span.line if fault.span else 0
                message = fault.message.replace(f"{trial}/", "")
                losses.append(Loss(file, line, message, fault.help or fault.label or "correct it in the kernel"))
    _write(target, adoption.files)
    return losses


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    with together() as written:
        for path, content in files.items():
            with writing(directory / path):
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
            written.write(directory / path, content)
