"""`driver build`: builds variants into `build/`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import VERBS, add_variants, releases_of, sentence
from py_driver.errors import ExitCode

if TYPE_CHECKING:
    from py_driver.building.build import Options
    from py_driver.cli import Subparsers
    from py_driver.output import Output


_SETTINGS = ("cuda_compile", "ptx_sharing")
"""Arguments that are settings of `//rules/settings` too."""


def positive(text: str) -> int:
    """A number from 1 to 9999 from the command line."""
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to 9999")
    return int(text)


def page(text: str) -> Path:
    """The path of a page from the command line."""
    if Path(text).suffix != ".html":
        raise argparse.ArgumentTypeError(f"`{text}` does not end in .html")
    return Path(text)


def add_choice(parser: argparse.ArgumentParser, default: str = "all default variants") -> None:
    """Add the arguments that say of what, which variants, how many steps at once, and how.

    Args:
        parser: of the verb.
        default: the variants if none are named, in words.
    """
    add_variants(parser, default)
    parser.add_argument(
        "--jobs", metavar="N", type=positive, help="actions at once (default: as Bazel sees fit, 100 on an executor)"
    )
    parser.add_argument(
        "--ram",
        metavar="GB",
        type=positive,
        help="start no more steps at once than are known to fit (default: what the machine or the container has)",
    )
    parser.add_argument(
        "--cuda-compile",
        choices=["split", "monolithic"],
        help="each phase of nvcc as an action of its own, which more cells share, or nvcc as a whole (default: split)",
    )
    parser.add_argument(
        "--ptx-sharing",
        choices=["off", "on", "check"],
        help="whether 8.0, 8.6, 8.9 and so on get the same PTX where they have the same preprocessed text; "
        "`check` compiles each and fails if it is not the same (default: off)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that verbs which build into build/ have."""
    add_choice(parser)
    parser.add_argument(
        "--remote-cache",
        metavar="URL",
        help="take results from a server and put them there, e.g. grpc://127.0.0.1:8980 (default: as configured)",
    )
    parser.add_argument(
        "--remote-executor",
        metavar="URL",
        help="run the steps on a server's machines; it is the cache too (default: as configured)",
    )


def settings_of(args: argparse.Namespace) -> dict[str, str]:
    """The settings that the command line names."""
    return {name: value for name in _SETTINGS if (value := getattr(args, name))}


def options_of(args: argparse.Namespace) -> Options:
    """The options of a build from the command line and the user's configuration.

    Raises:
        DriverError: see `remote_of`.
    """
    from py_driver.bazel.remote import remote_of  # noqa: PLC0415
    from py_driver.building.build import Options  # noqa: PLC0415  (`driver --help` does without them)

    return Options(
        jobs=args.jobs,
        ram=args.ram,
        strict_archs=args.strict_archs,
        settings=settings_of(args),
        report=getattr(args, "report", None),
        remote=remote_of(args.remote_cache, args.remote_executor),
    )


def add(subparsers: Subparsers) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("build", help=VERBS["build"], description=sentence("build"))
    add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        type=page,
        help="write a page about every step, what cells share, and what headers bring; and FILE.json with the same",
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Build; the exit code.

    Raises:
        DriverError: see `py_driver.building.build`.
    """
    from py_driver.building.build import as_json, build, report  # noqa: PLC0415  (`driver --help` needs none of these)

    done = build(args.directory, args.variant, releases_of(args), output, options_of(args))
    if args.json:
        output.json(as_json(done))
    else:
        report(done, output)
    return ExitCode.OK
