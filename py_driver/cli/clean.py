"""`driver clean`: removes the files that builds of a project have written into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.errors import ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    more = "Caches stay: `driver cache clean` removes the caches that all projects share."
    parser = add_command(subparsers, "clean", "relu", "relu --dry-run", more=more)
    # Other commands look for projects below a directory; this one removes only from named directories.
    parser.add_argument(
        "directories",
        metavar="DIR",
        nargs="*",
        type=Path,
        default=[Path()],
        help="directory of a project; projects below it are not cleaned (default: .)",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be removed; remove nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Remove the variants of projects; returns the exit code.

    Raises:
        DriverError: NO_MANIFEST for a directory that is not a project; PERMISSION if something cannot be removed.
    """
    from py_driver.building.clean import outputs_of, remove_all
    from py_driver.plan.project import read_manifest
    from py_driver.plan.projects import is_extension

    for directory in args.directories:
        if not is_extension(directory):
            read_manifest(directory)
    found = [outputs_of(directory) for directory in args.directories]
    paths = [path for outputs in found for path in outputs.written]
    foreign = [path for outputs in found for path in outputs.foreign]
    if not args.dry_run:
        remove_all(found)
    if args.json:
        output.json({"removed": [str(path) for path in paths], "kept": [str(path) for path in foreign]})
        return ExitCode.OK
    for path in paths:
        output.data(printable(str(path)))
    for path in foreign:
        output.say(f"note: {printable(str(path))} is kept: no build of the driver wrote it")
    count = "1 directory" if len(paths) == 1 else f"{len(paths)} directories"
    output.say(f"{count} {'would be ' if args.dry_run else ''}removed" if paths else "nothing to remove")
    return ExitCode.OK
