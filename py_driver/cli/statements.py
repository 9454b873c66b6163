"""Signed statements of `driver verify`: their options, signing, and a policy's verdicts on variants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, DriverError, ExitCode, as_json, error
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from py_driver.cli import Parser
    from py_driver.output import Output
    from py_driver.publishing.signing import Confirmed, Signer
    from py_driver.publishing.verify import Release, Verified


def add_statements(parser: Parser) -> None:
    """Add the options for signed statements."""
    group = parser.group("sign")
    group.add_argument(
        "--sign-with",
        metavar="KEY",
        type=Path,
        help="write a signed statement for each variant that is the same; a PEM file, ECDSA P-256 or Ed25519",
    )
    group.add_argument(
        "--policy",
        metavar="FILE",
        type=Path,
        help="build nothing; check that builders named in this TOML file have signed statements for the variants",
    )
    group.add_argument(
        "--statements",
        metavar="DIR",
        type=Path,
        help="directory that signed statements are written to or read from (default: statements/ of the project)",
    )


def check_statements(args: argparse.Namespace) -> None:
    """Check that the options can be combined.

    Raises:
        DriverError: USAGE.
    """
    signs, judges = args.sign_with is not None, args.policy is not None
    if signs and judges:
        message = "--sign-with rebuilds variants, and --policy builds nothing"
        raise error(Code.USAGE, message, help="run the command twice")
    if args.statements is not None and not (signs or judges):
        raise error(Code.USAGE, "--statements needs --sign-with or --policy", help="add --policy FILE")
    if (args.repo_id or args.branch) and not (args.published or signs or judges):
        raise error(Code.USAGE, "--repo-id and --branch need --published", help="add --published")
    if judges and (len(args.directories) > 1 or args.changed_since or args.torch or args.backend or args.cpu):
        message = "--policy accepts one directory, and variants only by --variant"
        raise error(Code.USAGE, message, help="driver verify DIR --policy FILE --variant '*-cpu-*'")


def refuse_statements(args: argparse.Namespace) -> None:
    """Refuse the options for artifacts that have no statements.

    Raises:
        DriverError: USAGE.
    """
    if args.sign_with is not None or args.policy is not None:
        message = "--sign-with and --policy are for variants of a project with a build.toml"
        raise error(Code.USAGE, message, help="verify without them")


def signer_of(args: argparse.Namespace, output: Output) -> Signer | None:
    """The key of `--sign-with`; None without it.

    Raises:
        DriverError: see `Signer`.
    """
    from py_driver.publishing.signing import Signer

    return Signer(args.sign_with, output) if args.sign_with is not None else None


def stated_of(args: argparse.Namespace) -> Release | None:
    """The publication that signed statements name; None if none are signed."""
    from py_driver.publishing.verify import Release

    return Release(repo_id=args.repo_id, branch=args.branch) if args.sign_with is not None else None


def sign(
    signer: Signer | None, directory: Path, verified: Iterable[Verified], args: argparse.Namespace, output: Output
) -> None:
    """Write a signed statement for each variant that is the same.

    Raises:
        DriverError: see `Signer.sign`.
    """
    from py_driver.publishing.rebuilt_statement import STATEMENTS

    same = [result.same for result in verified if result.same]
    if signer is None or not same:
        return
    paths = signer.sign(same, args.statements or directory / STATEMENTS)
    output.say(f"{counted(len(paths), 'statement')} signed with the key {signer.fingerprint[:16]}:")
    for path in paths:
        output.say(f"  {path}")


def judge(args: argparse.Namespace, output: Output) -> int:
    """Show a policy's verdicts on variants; returns the exit code.

    Raises:
        DriverError: NOT_CONFIRMED for each variant that too few builders have confirmed; see `confirm`.
    """
    from py_driver.cli.arguments import releases_of
    from py_driver.publishing.confirm import ConfirmOptions, confirm
    from py_driver.publishing.signing import not_confirmed

    options = ConfirmOptions(
        policy=args.policy,
        patterns=args.variant,
        published=args.published,
        repo_id=args.repo_id,
        branch=args.branch,
        statements=args.statements,
    )
    confirmed = confirm(args.directories[0], releases_of(args), output, options)
    wrong = not_confirmed(confirmed)
    if args.json:
        output.json({"variants": [_as_json(variant) for variant in confirmed], "errors": [*map(as_json, wrong)]})
        return wrong[0].code.exit_code if wrong else ExitCode.OK
    if wrong:
        raise DriverError(wrong)
    for variant in confirmed:
        output.data(f"{variant.variant}  {', '.join(variant.builders)}")
    output.say(f"{counted(len(confirmed), 'variant')} confirmed by {confirmed[0].required} or more of the builders")
    return ExitCode.OK


def _as_json(variant: Confirmed) -> dict[str, Any]:
    return {
        "variant": variant.variant,
        "place": variant.source,
        "builders": list(variant.builders),
        "required": variant.required,
        "refused": [{"statement": name, "reason": reason} for name, reason in variant.refused.items()],
    }
