"""`driver check`: says everything that is wrong with build.toml and with the files that it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import COMMANDS, add_project, releases_of, sentence
from py_driver.errors import Code, Diagnostic, DriverError, ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("check", help=COMMANDS["check"], description=sentence("check"))
    add_project(parser)
    parser.add_argument(
        "--strict", action="store_true", help="fail also for what upstream's builder takes and is probably a mistake"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Check; the exit code.

    A project that is right and has no cell to build here, e.g. one for another backend, passes with a note.

    Raises:
        DriverError: all that `project.load` raises; ARCH_DROPPED; with `--strict` the codes of the notes.
    """
    from py_driver.errors import Note  # noqa: PLC0415  (`driver --help` needs none of these)
    from py_driver.manifest.model import CURRENT  # noqa: PLC0415  (`driver --help` needs none of these)
    from py_driver.plan.plan import make_plan  # noqa: PLC0415
    from py_driver.plan.project import load  # noqa: PLC0415

    releases = releases_of(args)
    project = load(args.directory, releases)
    manifest, notes = project.manifest, project.notes
    try:
        variants = make_plan(project, releases.matrix, strict_archs=args.strict_archs).variants
    except DriverError as failure:
        if failure.diagnostics[0].code is not Code.NO_VARIANTS:
            raise
        variants = ()
        notes += (Note(message=failure.diagnostics[0].message, span=manifest.framework.span),)
    doubts = [Diagnostic(code=one.code, message=one.message, span=one.span) for one in notes if one.code]
    if args.strict and doubts:
        raise DriverError(doubts)
    if args.json:
        output.json(
            {
                "file": manifest.file,
                "edition": manifest.edition,
                "variants": [one.name for one in variants],
                "notes": [one.as_json() for one in notes],
                "errors": [],
            }
        )
        return ExitCode.OK
    output.notes(notes)
    bundled = sum(one.bundled for one in variants)
    named = f", {len(variants) - bundled} more on request" if len(variants) > bundled else ""
    advice = "" if manifest.edition == CURRENT else f"; `driver upgrade` writes edition {CURRENT}"
    said = f"{manifest.file} is valid: edition {manifest.edition}, {bundled} variants{named}{advice}"
    output.say(printable(said))
    return ExitCode.OK
