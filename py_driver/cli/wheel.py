"""`driver wheel`: makes a Python wheel of built variants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import COMMANDS, add_variants, releases_of, sentence, words_of
from py_driver.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser(
        "wheel",
        help=COMMANDS["wheel"],
        description=f"{sentence('wheel')} Its package loads the variant that fits the installed torch.",
    )
    add_variants(parser, default="all that are in build/")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("dist"), help="write the wheel to DIR (default: dist)"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Make the wheel; the exit code.

    Raises:
        DriverError: CHANGED_BUILD or UNSUPPORTED; NO_SPACE or PERMISSION; what `variant_dir.present` and reading the
            project raise.
    """
    from py_driver.building.variant_dir import present  # noqa: PLC0415
    from py_driver.building.workspace import one_at_a_time  # noqa: PLC0415
    from py_driver.plan.plan import make_plan  # noqa: PLC0415
    from py_driver.plan.project import load  # noqa: PLC0415
    from py_driver.publishing.release import read_variants  # noqa: PLC0415
    from py_driver.publishing.wheel import make_wheel  # noqa: PLC0415
    from py_driver.system.files import writing  # noqa: PLC0415  (`driver --help` needs none of these)

    releases = releases_of(args)
    project = load(args.directory, releases)
    plan = make_plan(project, releases.matrix, strict_archs=args.strict_archs)
    with one_at_a_time(plan, output):
        chosen = present(args.directory, plan, args.variant, words=words_of(args))
        built = read_variants(args.directory, plan, chosen)
        with writing(args.out):
            args.out.mkdir(parents=True, exist_ok=True)
            path = make_wheel(project.manifest, built, args.out)
    output.data(str(path))
    return ExitCode.OK
