"""`driver bazel`: runs Bazel itself in the current workspace, or prints which Bazel would run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.bazel.find import find_bazel
from py_driver.bazel.run import exec_bazel
from py_driver.cli import add_command
from py_driver.errors import Code, error

if TYPE_CHECKING:
    from py_driver.cli import Subparsers
    from py_driver.output import Output

_MODULE = "MODULE.bazel"


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "bazel",
        "-- version",
        "-- build //examples/relu:all_variants",
        more="If Bazel of the expected version is missing, it is installed first. Without arguments, print its path "
        "and version.",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGS", help="arguments for Bazel")


def run(args: argparse.Namespace, output: Output) -> int:
    """Run the command.

    Args:
        args: the parsed command line.
        output: where to print.

    Returns:
        The exit code; with arguments the process becomes Bazel and does not return.

    Raises:
        DriverError: there is no workspace, or no Bazel.
    """
    here = Path.cwd()
    root = workspace_root(here)
    bazel = find_bazel(root, output)
    passed = list(args.arguments)
    if passed[:1] == ["--"]:
        del passed[0]
    if passed:
        exec_bazel(bazel, passed, here)
    output.data(f"{bazel.path}  {bazel.version}")
    output.say(bazel.source.value)
    return 0


def workspace_root(start: Path) -> Path:
    """The nearest directory, from `start` upwards, with a MODULE.bazel."""
    for directory in (start, *start.parents):
        if (directory / _MODULE).is_file():
            return directory
    message = f"neither {start} nor a directory above it holds a {_MODULE}"
    raise error(Code.FILE_MISSING, message, help="change into a Bazel workspace")
