"""`driver upgrade`: rewrites build.toml for the current edition, keeping comments, order and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_directory, add_matrix, releases_of
from py_driver.errors import DriverError, ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "upgrade", "relu", "relu --diff")
    add_directory(parser)
    add_matrix(parser)
    parser.add_argument("--diff", action="store_true", help="print the changes; write nothing")


def run(args: argparse.Namespace, output: Output) -> int:
    """Rewrite; returns the exit code.

    Raises:
        DriverError: all errors in the file; UNSUPPORTED if its layout does not allow the rewriting; NO_MANIFEST,
            PERMISSION.
    """
    import shlex

    from py_driver.manifest.model import CURRENT
    from py_driver.manifest.reader import read
    from py_driver.manifest.upgrade import upgrade
    from py_driver.plan.project import MANIFEST, read_manifest
    from py_driver.system.files import difference, write

    path = args.directory / MANIFEST
    content = read_manifest(args.directory)
    libraries = tuple(releases_of(args).matrix.libraries)
    manifest, findings = read(content, str(path), libraries)
    if findings.has_errors:
        raise DriverError(findings.diagnostics())
    new = upgrade(content, manifest, libraries)
    if new == content:
        output.say(f"{printable(str(path))} already has edition {manifest.edition}")
        return ExitCode.OK
    root = f"torch-ext/{manifest.module}"
    if manifest.edition == 0 and manifest.python_root != root:
        command = f"mkdir -p torch-ext && git mv {shlex.quote(manifest.python_root)} {root}"
        output.say(f"note: edition {CURRENT} has the Python package in {root}: {command}")
    if manifest.license == "unknown":
        output.say('note: `license` is "unknown": write the licence of the project')
    if args.diff:
        output.data(difference(content.decode(), new.decode(), str(path), f"{path} (edition {CURRENT})"))
        return ExitCode.OK
    write(path, new)
    output.say(f"wrote {printable(str(path))}: edition {CURRENT} instead of {manifest.edition}")
    return ExitCode.OK
