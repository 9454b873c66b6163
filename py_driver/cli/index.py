"""`driver index`: writes a package index of wheels, for any web server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.errors import ExitCode
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "index",
        "dist",
        "dist --json",
        more="DIR can then be put on any web server. pip and uv choose from --extra-index-url URL/simple/ by version "
        "and local version.",
    )
    text = "directory with wheels, which gets a directory simple/ (default: dist)"
    parser.add_argument("directory", metavar="DIR", nargs="?", type=Path, default=Path("dist"), help=text)
    parser.add_argument("--json", action="store_true", help="print what the index lists as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Write the index; returns the exit code.

    Raises:
        DriverError: see `write_index`.
    """
    write(args.directory, output, as_json=args.json)
    return ExitCode.OK


def write(directory: Path, output: Output, *, as_json: bool = False) -> None:
    """Write the index of a directory, and report its contents.

    Args:
        directory: the directory with wheels.
        output: where to report.
        as_json: whether to print JSON.

    Raises:
        DriverError: see `write_index`.
    """
    from py_driver.publishing.wheel_index import write_index

    index = write_index(directory)
    projects = index.by_project()
    if as_json:
        listed = {name: [wheel.filename for wheel in wheels] for name, wheels in projects.items()}
        output.json({"directory": str(index.directory), "projects": listed, "removed": list(index.removed)})
        return
    for name in index.removed:
        output.say(f"{printable(name)} is removed: it has no wheels any more")
    listed_wheels = f"{counted(len(index.wheels), 'wheel')} of {counted(len(projects), 'project')}"
    output.say(printable(f"{index.directory} lists {listed_wheels}"))
