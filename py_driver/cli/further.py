"""The option for further kernels on this machine that a kernel depends on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code, error

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Parser


def add_further(parser: Parser, text: str) -> None:
    """Add the option.

    Args:
        parser: the parser of the command.
        text: the use of such a kernel, for the help.
    """
    parser.group("select").add_argument(
        "--with",
        dest="further",
        metavar="DIR",
        action="append",
        type=Path,
        default=[],
        help=f"use the kernel in DIR, or the kernels below it, for kernel-depends: {text}; repeatable",
    )


def check_no_further(args: argparse.Namespace, directory: Path) -> None:
    """Reject further kernels for a project with a setup.py.

    Args:
        args: the command line.
        directory: the directory of the project.

    Raises:
        DriverError: USAGE.
    """
    if args.further:
        message = f"--with: {directory} has a setup.py, and finds no kernels"
        raise error(Code.USAGE, message, help="call it without --with")
