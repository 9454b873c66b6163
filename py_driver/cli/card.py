"""`driver card`: prints the card of a kernel, or writes its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_project, page, releases_of
from py_driver.errors import ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "card",
        "relu",
        "relu --html card.html",
        more="It is the card that `driver publish` writes, about the variants in build/.",
    )
    add_project(parser)
    parser.add_argument(
        "--html",
        metavar="FILE.html",
        type=page,
        help="write a page instead: a single file, readable offline, with a picture of the variants",
    )
    parser.add_argument(
        "--slice", action="store_true", help="also list the slices in build-slices/, as `driver publish --slice` does"
    )
    parser.add_argument(
        "--repo-id", metavar="OWNER/NAME", default="", help="repository on the Hub (default: from build.toml)"
    )
    parser.add_argument("--json", action="store_true", help="print the data of the card as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the card or write the page; returns the exit code.

    Raises:
        DriverError: see `describe` and `write_page`.
    """
    from py_driver.publishing.card import make_card
    from py_driver.publishing.described import describe
    from py_driver.publishing.kernel_page import check_page, write_page

    if args.html:
        check_page(args.html)
    kernel = describe(
        args.directory,
        releases_of(args),
        output,
        repo_id=args.repo_id,
        strict_archs=args.strict_archs,
        slices=args.slice,
    )
    for warning in kernel.warnings:
        output.warn(printable(warning))
    if args.html:
        write_page(args.html, kernel)
        output.say(f"wrote {printable(str(args.html))}")
    if args.json:
        output.json(kernel.as_json())
    elif not args.html:
        output.data("\n".join(map(printable, make_card(kernel.facts).decode().rstrip("\n").split("\n"))))
    return ExitCode.OK
