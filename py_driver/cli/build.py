"""`driver build`: builds variants into `build/`."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.bazel.invocation import (
    COMPRESS,
    CUDA_COMPILE,
    CXX,
    HEADERS,
    Choices,
    Compress,
    CudaCompile,
    Cxx,
    Headers,
)
from py_driver.bazel.remote import remote_of
from py_driver.cli import add_command
from py_driver.cli.arguments import add_format, add_variants, page, releases_of, words_of
from py_driver.cli.bindings import OWN, add_bindings, check_no_bindings
from py_driver.cli.build_tables import HEADER, NUMBERS, actions_as_json, estimate_as_json, figures, show_plan
from py_driver.cli.projects import (
    Outcome,
    exit_code,
    extensions_of,
    for_each,
    projects_of,
    run_extensions,
    summary,
    then,
)
from py_driver.cli.variables import is_count
from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.matrix.backends import ARCH, meant_arch
from py_driver.output import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from py_driver.building.build import Build, Built, Options, Prepared, Result
    from py_driver.cli import Parser, Subparsers
    from py_driver.output import Output


NATIVE = "native"
"""The GPU architectures of this machine."""


def positive(text: str) -> int:
    """A number from 1 to 9999 from the command line."""
    if not is_count(text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to 9999")
    return int(text)


def archs_of(text: str) -> tuple[str, ...]:
    """GPU architectures of a command line, without duplicates, or only NATIVE; separated by `,`, `;` or blanks."""
    archs = tuple(dict.fromkeys(re.split(r"[,;\s]+", text.strip())))
    if wrong := [arch for arch in archs if arch != NATIVE and not re.fullmatch(ARCH, arch)]:
        meant = meant_arch(wrong[0])
        hint = f"; did you mean `{meant}`?" if meant else ""
        raise argparse.ArgumentTypeError(f"`{wrong[0]}` is not a GPU architecture like 9.0 or gfx942{hint}")
    if NATIVE in archs and len(archs) > 1:
        raise argparse.ArgumentTypeError(f"`{NATIVE}` cannot be combined with others")
    return archs


def named_archs(args: argparse.Namespace) -> tuple[str, ...]:
    """The GPU architectures of a command line; those of this machine's GPUs for NATIVE; empty if it names none.

    Raises:
        DriverError: see `native_archs`.
    """
    from py_driver.system.gpus import native_archs

    return native_archs() if args.archs == (NATIVE,) else args.archs or ()


def add_choice(parser: Parser, default: str = "all default variants", *, several: bool = False) -> None:
    """Add the arguments that select projects and variants, and the options of their build.

    Args:
        parser: the parser of the command.
        default: the variants without `--variant`, for the help.
        several: whether the command accepts several projects.
    """
    add_variants(parser, default, several=several)
    add_how(parser)


def add_how(parser: Parser) -> None:
    """Add the options for compiling, for concurrent actions, and for the report on actions."""
    compilation, schedule, report = parser.group("compile"), parser.group("schedule"), parser.group("report")
    compilation.add_argument(
        "--cuda-compile",
        choices=[cuda_compile.value for cuda_compile in CudaCompile],
        help="split: each phase of nvcc is a separate action, for more sharing between variants; monolithic: one nvcc "
        f"action for each source (default: {CUDA_COMPILE})",
    )
    compilation.add_argument(
        "--headers",
        choices=[header.value for header in Headers],
        help="needed: read only the torch headers that a source needs, and all of them if that fails; full: read all "
        f"included headers (default: {HEADERS}; {Headers.FULL} for `driver verify`)",
    )
    compilation.add_argument(
        "--cxx",
        choices=[cxx.value for cxx in Cxx],
        help="compiler of C++ sources; clang always compiles the host code of .cu and .hip files, and gcc sources with "
        f"OpenMP (default: {CXX})",
    )
    compilation.add_argument(
        "--compress",
        choices=[choice.value for choice in Compress],
        help="compression of CUDA device code: size: smallest; balance: larger, faster to build; speed: larger still, "
        f"but every GPU driver reads it; none; {COMPRESS}: balance, or speed if a GPU driver of the release needs it "
        f"(default: {COMPRESS})",
    )
    schedule.add_argument(
        "--jobs",
        metavar="N",
        type=positive,
        help="run at most N actions at once (default: MAX_JOBS, else Bazel decides; 100 on a remote executor)",
    )
    schedule.add_argument(
        "--ram",
        metavar="GB",
        type=positive,
        help="limit concurrent actions to this much memory (default: the memory of the machine or container)",
    )
    schedule.add_argument(
        "--keep-going",
        action="store_true",
        help="after an error, build everything that does not depend on it, to see all errors (default: stop; several "
        "projects always keep going)",
    )
    report.add_argument(
        "--warnings", action="store_true", help="show each compiler warning once (default: only their number)"
    )
    report.add_argument(
        "--verbose",
        action="store_true",
        help="print the command line and Bazel's full output for failed actions",
    )


def add_arguments(parser: Parser, default: str = "all default variants", *, several: bool = False) -> None:
    """Add the arguments of commands that build into build/.

    Args:
        parser: the parser of the command.
        default: the variants without `--variant`, for the help.
        several: whether it accepts several projects.
    """
    add_choice(parser, default, several=several)
    parser.group("select").add_argument(
        "--archs",
        metavar="LIST",
        type=archs_of,
        help="build device code only for these GPU architectures, e.g. 9.0 or gfx942, or `native` for the GPUs of this "
        "machine; such variants cannot be published (default: all architectures that the project names)",
    )
    schedule = parser.group("schedule")
    schedule.add_argument(
        "--remote-cache",
        metavar="URL",
        help="read and write results on a server: grpc://HOST:PORT (default: from config.toml)",
    )
    schedule.add_argument(
        "--remote-executor",
        metavar="URL",
        help="run actions on this server, which is also the remote cache (default: from config.toml)",
    )


def choices_of(args: argparse.Namespace) -> Choices:
    """The build choices of a command line, without a remote server."""
    return Choices(
        jobs=args.jobs,
        ram=args.ram,
        cuda_compile=CudaCompile(args.cuda_compile) if args.cuda_compile else None,
        headers=Headers(args.headers) if args.headers else None,
        cxx=Cxx(args.cxx) if args.cxx else None,
        compress=Compress(args.compress) if args.compress else None,
        keep_going=args.keep_going,
        verbose=args.verbose,
        warnings=args.warnings,
    )


def options_of(args: argparse.Namespace, *, several: bool = False) -> Options:
    """The build options of a command line and of the user's configuration.

    Args:
        args: the command line.
        several: whether it names several projects.

    Raises:
        DriverError: see `remote_of` and `native_archs`.
    """
    from py_driver.building.build import Options

    remote = remote_of(args.remote_cache, args.remote_executor)
    choices = replace(choices_of(args), remote=remote, keep_going=args.keep_going or several)
    return Options(
        strict_archs=args.strict_archs,
        words=words_of(args, several=several),
        archs=named_archs(args),
        slices=getattr(args, "slice", False),
        report=getattr(args, "report", None),
        choices=choices,
    )


def options_for(directory: Path, args: argparse.Namespace, pages: set[Path]) -> Options:
    """The build options for a project with a setup.py: with a report of its own if the command line has several.

    Args:
        directory: the directory of the project.
        args: the command line.
        pages: pages of other projects; the page of this project is added.

    Raises:
        DriverError: see `options_of` and `own_page`.
    """
    from py_driver.reporting.report_page import own_page

    options = options_of(args)
    if options.report is None or len(args.directories) == 1:
        return options
    return replace(options, report=own_page(options.report, directory.resolve().name, pages))


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "build", "relu --torch 2.13 --backend cuda", "relu --archs native --keep-going")
    add_arguments(parser, several=True)
    add_bindings(parser, OWN)
    add_format(parser, "print the result as JSON instead of a table")
    parser.group("select").add_argument(
        "--slice",
        action="store_true",
        help="also write slices, each with the device code of one GPU capability, into build-slices/ (default: "
        "build/ only)",
    )
    parser.group("schedule").add_argument(
        "--dry-run",
        action="store_true",
        help="print the planned actions and an estimate of time and memory, without building or waiting for other "
        "builds",
    )
    add_report(parser)


def add_report(parser: Parser) -> None:
    """Add the option for the report of a build."""
    parser.group("report").add_argument(
        "--report",
        metavar="FILE.html",
        type=page,
        help="write a page with all actions, the sharing between variants, and the cost of headers; FILE.json has the "
        "same data",
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Build; returns the exit code.

    Raises:
        DriverError: USAGE; see `py_driver.building.build` and `check_loads`; with several projects only errors that
            concern all.
    """
    from py_driver.building.build import build
    from py_driver.building.load_check import check_loads
    from py_driver.editor.project import refresh

    if args.dry_run and args.report is not None:
        message = "--report is about the actions of a build, and --dry-run runs none"
        raise error(Code.USAGE, message, help="leave out one of the two; `--dry-run --json` has the estimate as JSON")
    if extensions_of(args):
        from py_driver.cli import extension

        work, pages = extension.show_planned if args.dry_run else extension.build, set[Path]()
        return run_extensions(
            args,
            output,
            lambda directory: work(directory, args, output, options_for(directory, args, pages)),
            run,
            as_json=args.json,
        )
    check_no_bindings(args)
    projects = projects_of(args)
    if args.dry_run:
        return _plan(args.directories[:1] if projects is None else projects, args, output, alone=projects is None)
    if projects is not None:
        built = build_projects(projects, args, output)
        if args.json:
            output.json({"projects": [outcome.as_json(_as_json) for outcome in built]})
        else:
            show_several(built, output)
        return exit_code(built)
    releases = releases_of(args)
    done = build(args.directories[0], args.variant, releases, output, options_of(args))
    check_loads([built for built in done.variants if not built.variant.slice], output)
    refresh(args.directories[0], releases, output, done.unnarrowed)
    if args.json:
        output.json(_as_json(done))
    else:
        show(done, output)
    return ExitCode.OK


def _plan(projects: Sequence[Path], args: argparse.Namespace, output: Output, *, alone: bool) -> int:
    """Print the plan of a build; returns the exit code.

    Args:
        projects: the projects.
        args: the command line.
        output: where to print.
        alone: whether there is one project, whose errors are raised.
    """
    from py_driver.building.build import prepare
    from py_driver.building.dry_run import dry_run

    releases, options = releases_of(args), replace(options_of(args, several=not alone), report=None)

    def prepared(directory: Path) -> Prepared:
        return prepare(directory, args.variant, releases, output, options)

    outcomes = [Outcome(projects[0], prepared(projects[0]))] if alone else for_each(projects, prepared, output)
    results = dry_run([outcome.value for outcome in outcomes if outcome.value], releases, output, options)
    show_plan(*results, [outcome for outcome in outcomes if outcome.failure], args, output, alone=alone)
    return ExitCode.OK if alone else exit_code(outcomes)


def build_projects(projects: Sequence[Path], args: argparse.Namespace, output: Output) -> list[Outcome[Build]]:
    """Build several projects: plan all of them, then build those without errors.

    Raises:
        DriverError: an error that concerns all of them.
    """
    from py_driver.building.build import build_all, prepare
    from py_driver.building.load_check import check_loads, torches_here
    from py_driver.editor.project import refresh
    from py_driver.matrix.lock_update import check_user_lock
    from py_driver.reporting.report_page import own_page

    releases, options = releases_of(args), options_of(args, several=True)
    check_user_lock(releases)
    torches = cache(torches_here)
    page, pages = options.report, set[Path]()

    def prepared(directory: Path) -> Prepared:
        ready = prepare(directory, args.variant, releases, output, replace(options, report=None))
        return replace(ready, report=own_page(page, ready.plan.module, pages) if page else None)

    planned = for_each(projects, prepared, output)
    results = build_all([outcome.value for outcome in planned if outcome.value], releases, output, options)

    def loaded(ready: Prepared) -> Build:
        done = _built(results[ready.directory])
        check_loads([built for built in done.variants if not built.variant.slice], output, torches)
        refresh(ready.directory, releases, output, done.unnarrowed)
        return done

    return then(planned, loaded, output)


def _built(result: Result) -> Build:
    """The build of a project.

    Raises:
        DriverError: the error of its build.
    """
    if isinstance(result, DriverError):
        raise result
    return result


def show_several(outcomes: Sequence[Outcome[Build]], output: Output, done: str = "built") -> None:
    """Print one table for the builds of several projects.

    Args:
        outcomes: the outcomes of all projects.
        output: where to print.
        done: a participle for the projects without errors.
    """
    rows = [
        [printable(str(outcome.directory)), *row]
        for outcome in outcomes
        if outcome.value
        for row in _rows(outcome.value.variants)
    ]
    if rows:
        variants = [variant for outcome in outcomes if outcome.value for variant in outcome.value.variants]
        output.table(
            ["project", *HEADER],
            [*rows, ["total", "", *figures(variants, "")]],
            right=tuple(at + 1 for at in NUMBERS),
        )
    output.say(summary(outcomes, done))


def _rows(variants: Iterable[Built]) -> list[list[str]]:
    """The rows of a table of variants: size, GPU architectures, and counts of compile actions."""
    return [[variant.variant.name, *figures([variant], variant.variant.shown_archs)] for variant in variants]


def show(done: Build, output: Output) -> None:
    """Print the table of a build."""
    output.table(HEADER, [*_rows(done.variants), ["total", *figures(done.variants, "")]], right=NUMBERS)
    output.say(
        f"{counted(len(done.variants), 'variant')} in {done.seconds:.1f} s; {done.bytes_fetched / 1e6:.1f} MB fetched"
    )


def _as_json(done: Build) -> dict[str, Any]:
    """A build as a value for JSON."""
    return {
        "name": done.plan.name,
        "seconds": round(done.seconds, 3),
        "bytes-fetched": done.bytes_fetched,
        "plan": estimate_as_json(done.estimate),
        "variants": [
            {
                "variant": variant.variant.name,
                "path": str(variant.path),
                "size": variant.size,
                "archs": list(variant.variant.archs or ()),
                **actions_as_json([variant]),
            }
            for variant in done.variants
        ],
    }
