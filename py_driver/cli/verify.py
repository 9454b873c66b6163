"""`driver verify`: builds variants without any cache and compares them with those in `build/`, or on the Hub."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of, words_of
from py_driver.cli.build import add_choice, choices_of
from py_driver.cli.projects import exit_code, for_each, projects_of, summary, then
from py_driver.errors import Code, DriverError, ExitCode, as_json, error
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.cli import Subparsers
    from py_driver.cli.projects import Outcome
    from py_driver.output import Output
    from py_driver.publishing.verify import Result, Verified


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "verify", "relu --variant '*-cpu-*'", "relu --published --repo-id me/relu")
    add_choice(parser, default="all variants in build/", several=True)
    compare = parser.group("compare")
    compare.add_argument(
        "--published", action="store_true", help="compare with the variants on the Hub instead of those in build/"
    )
    compare.add_argument(
        "--repo-id", metavar="OWNER/NAME", help="repository for --published (default: from build.toml)"
    )
    compare.add_argument(
        "--branch", metavar="NAME", help="branch for --published (default: from build.toml, or v<version>)"
    )
    report = parser.group("report")
    report.add_argument("--diffoscope", action="store_true", help="show differences with diffoscope")
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Verify; the exit code.

    Raises:
        DriverError: USAGE; see `publishing.verify`; NOT_REPRODUCED, one for each variant that is not the same. With
            several projects only what is wrong for all of them.
    """
    from py_driver.building.build import Options
    from py_driver.publishing.verify import (
        Release,
        VerifyOptions,
        check_tools,
        failures,
        make_task,
        verify,
    )

    if not args.published and (args.repo_id or args.branch):
        raise error(Code.USAGE, "--repo-id and --branch need --published", help="add --published")
    projects = projects_of(args)
    if projects is not None and args.repo_id:
        raise error(Code.USAGE, "--repo-id is for a single project", help="name one directory, without --changed-since")
    release = Release(repo_id=args.repo_id or "", branch=args.branch or "") if args.published else None
    build = Options(
        strict_archs=args.strict_archs, words=words_of(args, several=projects is not None), choices=choices_of(args)
    )
    options = VerifyOptions(patterns=args.variant, build=build, release=release, diffoscope=args.diffoscope)
    releases = releases_of(args)
    check_tools(releases, options)
    if projects is None:
        with ExitStack() as stack:
            task = make_task(args.directories[0], releases, output, options, stack)
            [result] = verify([task], releases, output, options).values()
        verified = _verified(result)
        wrong = failures(verified)
        if args.json:
            output.json(_as_json(verified))
            return wrong[0].code.exit_code if wrong else ExitCode.OK
        _same(verified, output)
        output.say(f"{counted(len(verified), 'variant')} built without any cache: every byte is the same")
        return ExitCode.OK
    with ExitStack() as stack:
        planned = for_each(projects, lambda path: make_task(path, releases, output, options, stack), output)
        results = verify([outcome.value for outcome in planned if outcome.value], releases, output, options)
    built = then(planned, lambda task: _verified(results[task.directory]), output)
    judged = then(built, lambda variants: _same(variants, output), output)
    if args.json:
        output.json({"projects": [outcome.as_json(_as_json) for outcome in built]})
    else:
        _show_several(built, output)
        output.say(summary(judged, "built without any cache, every byte the same"))
    return exit_code(judged)


def _verified(result: Result) -> list[Verified]:
    """The variants of a project that were built again.

    Raises:
        DriverError: why they were not.
    """
    if isinstance(result, DriverError):
        raise result
    return result


def _same(verified: list[Verified], output: Output) -> list[Verified]:
    """The variants, if they are the same as before; what diffoscope says of them is printed.

    Raises:
        DriverError: NOT_REPRODUCED, one for each that is not.
    """
    from py_driver.publishing.verify import failures

    for result in verified:
        if result.report:
            output.say(result.report)
    if wrong := failures(verified):
        raise DriverError(wrong)
    return verified


def _as_json(verified: list[Verified]) -> dict[str, Any]:
    """What was verified as a value for JSON."""
    from py_driver.publishing.verify import failures

    variants = [
        {
            "variant": result.variant,
            "place": result.place,
            "differences": list(result.differences),
            "report": result.report,
        }
        for result in verified
    ]
    return {"variants": variants, "errors": [as_json(failure) for failure in failures(verified)]}


def _show_several(outcomes: Sequence[Outcome[list[Verified]]], output: Output) -> None:
    """Print one table of the variants of several projects, and of projects that could not be built."""
    rows = []
    for outcome in outcomes:
        name = printable(str(outcome.directory))
        if outcome.value is None:
            rows.append([name, "-", outcome.described()])
        for found in outcome.value or ():
            count = len(found.differences)
            shown = counted(count, "difference") if count else "the same"
            rows.append([name, found.variant, shown])
    if rows:
        output.table(("project", "variant", "outcome"), rows)
