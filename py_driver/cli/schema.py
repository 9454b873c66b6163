"""`driver schema`: prints the JSON Schema of build.toml, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "schema", "--edition 5", "--edition 6")
    text = "the edition of build.toml: 5 or 6 (default: 5)"
    parser.add_argument("--edition", type=int, choices=(5, 6), default=5, help=text, metavar="N")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the schema; the exit code."""
    from py_driver.manifest.schema import make_schema

    output.json(make_schema(args.edition))
    return ExitCode.OK
