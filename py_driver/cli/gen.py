"""`driver gen`: writes BUILD.bazel from build.toml, or checks that it is fresh."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_project, releases_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.output import Output

BUILD_FILE = "BUILD.bazel"
"""The name of the file that is generated."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "gen", "relu", "relu --check")
    add_project(parser)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 with a diff if BUILD.bazel is out of date"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Generate or check; the exit code.

    Raises:
        DriverError: BAD_VALUE if a file has a name that no label carries; STALE_BUILD_FILE if `--check` finds a
            difference; FOREIGN_FILE if the BUILD.bazel there is not generated; PERMISSION; and all that
            `plan_directory` raises.
    """
    from py_driver.manifest.paths import SIGNS
    from py_driver.matrix.installation import label_prefix
    from py_driver.plan.buildfile import HEADER, render
    from py_driver.plan.plan import plan_directory
    from py_driver.system.files import difference, write

    plan = plan_directory(args.directory, releases_of(args), strict_archs=args.strict_archs)
    output.notes(plan.notes)
    if name := next(iter(plan.own_names.values()), ""):
        file = f"{plan.python_root}/{name}"
        message = f"BUILD.bazel cannot list `{file}`: its name has more than ASCII letters, digits and `{SIGNS}`"
        advice = "rename it, or build without `driver gen`: `driver build` needs no BUILD.bazel and takes any name"
        raise error(Code.BAD_VALUE, message, help=advice)
    text = render(plan, label_prefix(args.directory))
    path: Path = args.directory / BUILD_FILE
    old = _read(path)
    if old is not None and not old.startswith(HEADER + "\n"):
        advice = f"move it, or let `driver gen` overwrite it by making its first line `{HEADER}`"
        raise error(Code.FOREIGN_FILE, f"{path} was not written by `driver gen`", help=advice)
    if old == text:
        output.say(f"{printable(str(path))} is up to date")
        return ExitCode.OK
    if args.check:
        output.data(difference(old or "", text, str(path), f"{path} (generated)"))
        raise error(
            Code.STALE_BUILD_FILE, f"{path} does not match build.toml", help=f"run `driver gen {args.directory}`"
        )
    write(path, text.encode())
    output.say(f"wrote {printable(str(path))}: {counted(len(plan.variants), 'variant')}")
    return ExitCode.OK


def _read(path: Path) -> str | None:
    """The text of a regular file, or None if there is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise error(Code.FOREIGN_FILE, f"{path} is not a regular file", help="move it away")
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if path.is_symlink():
            advice = "remove it, or create the file that it leads to"
            raise error(Code.FOREIGN_FILE, f"{path} is a dangling symbolic link", help=advice) from None
        return None
    except OSError as problem:
        raise error(Code.PERMISSION, f"cannot read {path}: {problem.strerror}") from None
