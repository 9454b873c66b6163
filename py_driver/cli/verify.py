"""`driver verify`: builds variants without any cache and compares them with those in `build/`, or on the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import COMMANDS, releases_of, sentence, words_of
from py_driver.cli.build import add_choice, choices_of
from py_driver.errors import Code, DriverError, ExitCode, as_json, error

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("verify", help=COMMANDS["verify"], description=sentence("verify"))
    add_choice(parser, default="all that are in build/")
    parser.add_argument(
        "--published", action="store_true", help="compare with the variants on the Hub instead of those in build/"
    )
    parser.add_argument(
        "--repo-id", metavar="OWNER/NAME", help="the repository of --published (default: as build.toml says)"
    )
    parser.add_argument(
        "--branch", metavar="NAME", help="the branch of --published (default: as build.toml says, or v<version>)"
    )
    parser.add_argument("--diffoscope", action="store_true", help="show with diffoscope how variants differ")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Verify; the exit code.

    Raises:
        DriverError: USAGE; see `publishing.verify`; NOT_REPRODUCED, one for each variant that is not the same.
    """
    from py_driver.building.build import Options  # noqa: PLC0415  (`driver --help` needs none of these)
    from py_driver.publishing.verify import Release, failures, verify  # noqa: PLC0415

    if not args.published and (args.repo_id or args.branch):
        raise error(Code.USAGE, "--repo-id and --branch need --published", help="add --published")
    release = Release(repo_id=args.repo_id or "", branch=args.branch or "") if args.published else None
    options = Options(strict_archs=args.strict_archs, words=words_of(args), choices=choices_of(args))
    releases = releases_of(args)
    verified = verify(args.directory, args.variant, releases, output, options, release, diffoscope=args.diffoscope)
    wrong = failures(verified)
    if args.json:
        variants = [
            {"variant": one.variant, "place": one.place, "differences": list(one.differences), "report": one.report}
            for one in verified
        ]
        output.json({"variants": variants, "errors": [as_json(one) for one in wrong]})
        return wrong[0].code.exit_code if wrong else ExitCode.OK
    for one in verified:
        if one.report:
            output.say(one.report)
    if wrong:
        raise DriverError(wrong)
    count = len(verified)
    output.say(f"{count} variant{'s' * (count != 1)} built without any cache: every byte is the same")
    return ExitCode.OK
