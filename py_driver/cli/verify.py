"""`driver verify`: builds variants without any cache and compares them with those in `build/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import VERBS, sentence
from py_driver.cli.build import add_choice, settings_of
from py_driver.errors import DriverError, ExitCode, as_json

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("verify", help=VERBS["verify"], description=sentence("verify"))
    add_choice(parser, default="all that are in build/")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Verify; the exit code.

    Raises:
        DriverError: see `py_driver.verifying`; NOT_REPRODUCED, one for each variant that is not the same.
    """
    from py_driver.building import Options  # noqa: PLC0415  (`driver --help` needs none of these)
    from py_driver.verifying import failures, verify  # noqa: PLC0415

    options = Options(jobs=args.jobs, ram=args.ram, strict_archs=args.strict_archs, settings=settings_of(args))
    verified = verify(args.directory, args.variant, output, options)
    wrong = failures(verified)
    if args.json:
        variants = [{"variant": one.variant, "differences": list(one.differences)} for one in verified]
        output.json({"variants": variants, "errors": [as_json(one) for one in wrong]})
        return wrong[0].code.exit_code if wrong else ExitCode.OK
    if wrong:
        raise DriverError(wrong)
    count = len(verified)
    output.say(f"{count} variant{'s' * (count != 1)} built without any cache: the same, byte for byte")
    return ExitCode.OK
