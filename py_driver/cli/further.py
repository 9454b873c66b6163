"""The option of commands that take further kernels of this machine, for one that depends on them."""

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
        parser: of the command.
        text: what is done with a kernel.
    """
    parser.group("select").add_argument(
        "--with",
        dest="further",
        metavar="DIR",
        action="append",
        type=Path,
        default=[],
        help=f"for kernel-depends, take the kernel in DIR, or those below it: {text}; repeatable",
    )


def check_no_further(args: argparse.Namespace, directory: Path) -> None:
    """See that no further kernel is named for a project with a setup.py.

    Args:
        args: the command line.
        directory: of the project.

    Raises:
        DriverError: USAGE.
    """
    if args.further:
        message = f"--with: {directory} has a setup.py, and finds no kernels"
        raise error(Code.USAGE, message, help="call it without --with")
