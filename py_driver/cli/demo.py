"""`driver demo`: builds a project and runs its example on what was built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import COMMANDS, releases_of, sentence
from py_driver.cli.build import add_arguments, options_of, show
from py_driver.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("demo", help=COMMANDS["demo"], description=sentence("demo"))
    add_arguments(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Build, load, run, and print what came of it; the exit code.

    Raises:
        DriverError: see `building.build`; LOAD_FAILED if the example fails.
    """
    from py_driver.building.build import build  # noqa: PLC0415  (`driver --help` needs none of these)
    from py_driver.building.example import python_for, run_example  # noqa: PLC0415

    releases = releases_of(args)
    done = build(args.directory, args.variant, releases, output, options_of(args))
    python = python_for([built.variant.cell for built in done.cells], releases, output)
    with output.task("running the example") as task:
        said = run_example(args.directory, python)
        task.done("done")
    output.data(said)
    output.data("")
    show(done, output)
    return ExitCode.OK
