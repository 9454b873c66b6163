"""`driver schema`: prints the JSON Schema of build.toml, or of a command's output with `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.errors import Code, ExitCode, error
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "schema", "--edition 6", "check")
    text = "describe the result of this command (default: describe build.toml)"
    parser.add_argument("command_name", metavar="COMMAND", nargs="?", help=text)
    text = "the edition of build.toml: 5 or 6 (default: 5)"
    parser.add_argument("--edition", type=int, choices=(5, 6), help=text, metavar="N")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the schema; returns the exit code.

    Raises:
        DriverError: USAGE if the command prints no JSON, or an edition is named with it.
    """
    from py_driver.cli.results import declared, make_result_schema
    from py_driver.manifest.model import CURRENT
    from py_driver.manifest.schema import make_schema

    name = args.command_name
    if name is None:
        output.json(make_schema(args.edition or CURRENT))
        return ExitCode.OK
    if args.edition is not None:
        raise error(Code.USAGE, "--edition is for the schema of build.toml", help=f"write `driver schema {name}`")
    commands = declared()["commands"]
    if name not in commands:
        hint = did_you_mean(name, commands)
        advice = f"{hint}{' ' if hint else ''}commands with one: {', '.join(commands)}"
        raise error(Code.USAGE, f"`{name}` is not a command that prints JSON", help=advice)
    output.json(make_result_schema(name))
    return ExitCode.OK
