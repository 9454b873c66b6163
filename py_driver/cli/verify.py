"""`driver verify`: builds variants without any cache and compares them with those in `build/`, or on the Hub."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.cli.arguments import add_repository, releases_of, words_of
from py_driver.cli.build import add_choice, choices_of
from py_driver.cli.projects import exit_code, extensions_of, for_each, projects_of, run_extensions, summary, then
from py_driver.cli.statements import (
    add_statements,
    check_statements,
    judge,
    refuse_statements,
    sign,
    signer_of,
    stated_of,
)
from py_driver.errors import Code, DriverError, ExitCode, as_json, error
from py_driver.output import counted, printable
from py_driver.plan.projects import is_extension

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.cli import Subparsers
    from py_driver.cli.projects import Outcome
    from py_driver.extensions.binding import Bindings
    from py_driver.fetch.entry import Entry
    from py_driver.output import Output
    from py_driver.publishing.extension_verify import Artifact
    from py_driver.publishing.rebuild import Task
    from py_driver.publishing.verify import Result, Verified


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "verify",
        "relu --variant '*-cpu-*'",
        "relu --published --repo-id me/relu",
        more="It also compares wheels that `driver wheel` made: DIR is then the wheel.",
    )
    add_choice(parser, default="all variants in build/", several=True)
    compare = parser.group("compare")
    compare.add_argument(
        "--slice",
        action="store_true",
        help="also compare the slices in build-slices/, or with --published the slices on their branches",
    )
    compare.add_argument(
        "--source",
        metavar="DIR",
        type=Path,
        help="the project that the wheels were made from (default: the release on the package index that they name)",
    )
    compare.add_argument(
        "--published", action="store_true", help="compare with the variants on the Hub instead of those in build/"
    )
    add_repository(compare)
    add_statements(parser)
    report = parser.group("report")
    report.add_argument("--diffoscope", action="store_true", help="show differences with diffoscope")
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Verify; returns the exit code.

    Raises:
        DriverError: USAGE; see `publishing.verify`; NOT_REPRODUCED for each variant that differs. With several projects
            only errors that concern all.
    """
    from py_driver.building.build import Options
    from py_driver.publishing.verify import (
        Release,
        VerifyOptions,
        check_tools,
        make_task,
        verify,
    )

    check_statements(args)
    _check_slices(args)
    if args.policy is not None and not args.source:
        return judge(args, output)
    if (wheels := [path for path in args.directories if path.suffix == ".whl" and path.is_file()]) or args.source:
        refuse_statements(args)
        return _wheels(wheels, args, output)
    if extensions_of(args):
        refuse_statements(args)
        return run_extensions(
            args, output, lambda directory: _extension(directory, args, output), run, as_json=args.json
        )
    projects = projects_of(args)
    if projects is not None and args.repo_id:
        raise error(Code.USAGE, "--repo-id is for a single project", help="name one directory, without --changed-since")
    if projects is not None and args.statements is not None:
        raise error(Code.USAGE, "--statements is for a single project", help="leave it out: each project has its own")
    release = Release(repo_id=args.repo_id, branch=args.branch) if args.published else None
    build = Options(
        strict_archs=args.strict_archs, words=words_of(args, several=projects is not None), choices=choices_of(args)
    )
    options = VerifyOptions(
        patterns=args.variant,
        build=build,
        release=release,
        diffoscope=args.diffoscope,
        stated=stated_of(args),
        slices=args.slice,
    )
    releases = releases_of(args)
    check_tools(releases, options)
    signer = signer_of(args, output)
    if projects is None:
        with ExitStack() as stack:
            task = make_task(args.directories[0], releases, output, options, stack)
            [result] = verify([task], releases, output, options).values()
        verified = _verified(result)
        sign(signer, args.directories[0], verified, args, output)
        return _told(verified, args, output)
    with ExitStack() as stack:
        planned = for_each(projects, lambda path: make_task(path, releases, output, options, stack), output)
        results = verify([outcome.value for outcome in planned if outcome.value], releases, output, options)

    def signed(task: Task) -> list[Verified]:
        verified = _verified(results[task.directory])
        sign(signer, task.directory, verified, args, output)
        return verified

    built = then(planned, signed, output)
    judged = then(built, lambda variants: _same(variants, output), output)
    if args.json:
        output.json({"projects": [outcome.as_json(_as_json) for outcome in built]})
    else:
        _show_several(built, output)
        output.say(summary(judged, "built without any cache, every byte the same"))
    return exit_code(judged)


def _check_slices(args: argparse.Namespace) -> None:
    """Refuse `--slice` for artifacts without slices, or with slices in any case.

    Raises:
        DriverError: USAGE.
    """
    if not args.slice:
        return
    if args.policy is not None:
        message = "--slice: builders state whole variants, and --policy looks for their statements"
        raise error(Code.USAGE, message, help="call it without --slice")
    if args.source is not None or any(path.suffix == ".whl" for path in args.directories):
        message = "--slice is for a project; a wheel of slices is compared as any other"
        raise error(Code.USAGE, message, help="call it without --slice")
    if extensions := extensions_of(args):
        message = f"--slice: {extensions[0]} has a setup.py, and no slices"
        raise error(Code.USAGE, message, help="call it without --slice")


def _wheels(wheels: Sequence[Path], args: argparse.Namespace, output: Output) -> int:
    """Verify wheels of projects; returns the exit code.

    Raises:
        DriverError: USAGE; see `verify_wheels`, `read_artifact`, `fetch_source` and `verify_extension`; NOT_REPRODUCED.
    """
    from py_driver.publishing.extension_verify import read_artifact
    from py_driver.recording.source_archive import fetch_source

    if not wheels:
        message = "--source names the project of wheels, and the command line has no wheel"
        raise error(Code.USAGE, message, help=f"driver verify dist/*.whl --source {args.source}")
    chosen = args.variant or words_of(args, several=True).given or args.changed_since
    if len(wheels) < len(args.directories) or chosen or args.published:
        advice = "driver verify dist/*.whl, with --source DIR if the project is a directory"
        raise error(Code.USAGE, "wheels cannot be combined with directories, variants or --published", help=advice)
    if args.source is not None and not is_extension(args.source):
        return _told(_of_build_toml(wheels, args, output), args, output)
    projects: dict[tuple[Path, Entry | None], list[Artifact]] = {}
    for path in wheels:
        artifact = read_artifact(path)
        if args.source is not None:
            project: tuple[Path, Entry | None] = args.source, None
        elif artifact.requirement is None:
            message = f"{path} was built from a directory"
            raise error(Code.USAGE, message, help="name that with --source DIR")
        else:
            requirement, digest = artifact.requirement
            source = fetch_source(requirement, output, hashes=[digest])
            project = source.directory, source.archive
        projects.setdefault(project, []).append(artifact)
    verified = [
        result
        for (directory, source_archive), artifacts in projects.items()
        for result in _compared(directory, source_archive, artifacts, args, output)
    ]
    return _told(verified, args, output)


def _of_build_toml(wheels: Sequence[Path], args: argparse.Namespace, output: Output) -> list[Verified]:
    """Rebuild the contents of a build.toml's wheels, and compare them."""
    from py_driver.building.build import Options
    from py_driver.cli.bindings import named_pythons
    from py_driver.publishing.verify import VerifyOptions, check_tools
    from py_driver.publishing.wheel_verify import verify_wheels

    releases = releases_of(args)
    build = Options(strict_archs=args.strict_archs, choices=choices_of(args))
    options = VerifyOptions(patterns=(), build=build, diffoscope=args.diffoscope)
    check_tools(releases, options)
    return verify_wheels(
        wheels, args.source, lambda versions: named_pythons(versions, releases.matrix), releases, output, options
    )


def _extension(directory: Path, args: argparse.Namespace, output: Output) -> int:
    """Verify the variants of a project with a setup.py; returns the exit code.

    Raises:
        DriverError: USAGE; see `built_here` and `verify_extension`; NOT_REPRODUCED.
    """
    from py_driver.building.build import Options
    from py_driver.publishing.extension_verify import built_here

    if args.published:
        message = "`--published` is for a project with a build.toml; with a setup.py, wheels are published"
        raise error(Code.USAGE, message, help="verify the wheels: driver verify dist/*.whl")
    options = Options(words=words_of(args, several=True))
    artifacts = built_here(directory, args.variant, releases_of(args).matrix, options)
    return _told(_compared(directory, None, artifacts, args, output), args, output)


def _compared(
    directory: Path, source: Entry | None, artifacts: Sequence[Artifact], args: argparse.Namespace, output: Output
) -> list[Verified]:
    """Rebuild artifacts of a setup.py, and compare them."""
    from py_driver.building.build import Options
    from py_driver.cli.bindings import all_pythons, named_bindings
    from py_driver.publishing.extension_verify import verify_extension
    from py_driver.publishing.verify import VerifyOptions, check_tools

    releases = releases_of(args)

    def bindings(way: str, pythons: Sequence[str]) -> Bindings:
        return named_bindings(way, pythons, releases.matrix, all_pythons)

    build = Options(strict_archs=args.strict_archs, choices=choices_of(args))
    options = VerifyOptions(patterns=(), build=build, diffoscope=args.diffoscope)
    check_tools(releases, options)
    return verify_extension(directory, source, artifacts, bindings, releases, output, options)


def _told(verified: list[Verified], args: argparse.Namespace, output: Output) -> int:
    """Show the results for one project, or for wheels; returns the exit code.

    Raises:
        DriverError: NOT_REPRODUCED for each variant that differs.
    """
    from py_driver.publishing.verify import failures

    wrong = failures(verified)
    if args.json:
        output.json(_as_json(verified))
        return wrong[0].code.exit_code if wrong else ExitCode.OK
    _same(verified, output)
    output.say(f"{counted(len(verified), 'variant')} built without any cache: every byte is the same")
    return ExitCode.OK


def _verified(result: Result) -> list[Verified]:
    """The rebuilt variants of a project.

    Raises:
        DriverError: the error of their build.
    """
    if isinstance(result, DriverError):
        raise result
    return result


def _same(verified: list[Verified], output: Output) -> list[Verified]:
    """The variants, if all are identical to the existing ones; diffoscope's reports are printed.

    Raises:
        DriverError: NOT_REPRODUCED for each variant that differs.
    """
    from py_driver.publishing.verify import failures

    for result in verified:
        if result.report:
            output.say(result.report)
    if wrong := failures(verified):
        raise DriverError(wrong)
    return verified


def _as_json(verified: list[Verified]) -> dict[str, Any]:
    """The results as a value for JSON."""
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
