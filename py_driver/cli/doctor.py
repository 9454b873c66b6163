"""`driver doctor`: checks this machine, line by line, with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, releases_of
from py_driver.errors import ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    more = "Each line is right, wrong or unknown. The exit code is 4 if a line is wrong."
    parser = add_command(subparsers, "doctor", "", "--json", more=more)
    add_matrix(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Check the machine; returns the exit code.

    Raises:
        DriverError: an error in the user's matrix.
    """
    from pathlib import Path

    from py_driver.authoring.doctor import examine
    from py_driver.authoring.machine_check import WRONG

    checks = examine(Path.cwd(), releases_of(args))
    wrong = [check for check in checks if check.state == WRONG]
    if args.json:
        output.json({"checks": [check._asdict() for check in checks]})
    else:
        output.table(
            ("check", "state", "found"), [[check.name, check.state, printable(check.found)] for check in checks]
        )
        for check in checks:
            if check.advice:
                output.say(f"{check.name}: {printable(check.advice)}")
    return ExitCode.ENVIRONMENT if wrong else ExitCode.OK
