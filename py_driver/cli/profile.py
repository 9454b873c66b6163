"""`driver profile`: profiles a workload with Nsight Compute and prints the metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.cli.run import add_local, built, check_project, local_archs, machine_of
from py_driver.errors import Code, ExitCode, error
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.cli import Subparsers
    from py_driver.inspecting.profile import Profiled
    from py_driver.output import Output

_SET = "basic"
"""The default set of metrics."""

_ADVICE = 3
"""How many of Nsight Compute's recommendations are shown for each kernel; the report has all."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers, "profile", "relu Float32.relu --set full", "relu --report logs/new.ncu-rep --diff logs/old.ncu-rep"
    )
    measure = parser.group("measure")
    add_local(parser)
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        nargs="?",
        help="a workload of `driver bench`, e.g. Float32.silu (default: the first one)",
    )
    measure.add_argument(
        "--set",
        dest="kind",
        choices=["basic", "full"],
        help=f"metrics to measure: basic takes seconds; full adds stalls, traffic and more advice (default: {_SET})",
    )
    measure.add_argument("--report", metavar="FILE", type=Path, help="show this report; measure nothing")
    measure.add_argument("--diff", metavar="FILE", type=Path, help="also show the values of an earlier report")
    parser.group("report").add_argument(
        "--json", action="store_true", help="print the result as JSON instead of a table"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Profile; returns the exit code.

    Raises:
        DriverError: USAGE if there is no such workload, or for --report with one; see `profile` and `read`.
    """
    from py_driver.inspecting.profiler import read

    if args.report is not None and (args.workload or args.kind):
        message = "--report shows an existing report and measures nothing: it excludes WORKLOAD and --set"
        raise error(Code.USAGE, message, help="a measurement writes its report into logs/ of the project")
    earlier = read(args.diff, output) if args.diff else []
    launches = read(args.report, output) if args.report else read(_measured(args, output), output)
    if args.json:
        found = {
            "launches": [launch.as_json() for launch in launches],
            "earlier": [profiled.as_json() for profiled in earlier],
        }
        output.json(found)
    else:
        _show(launches, earlier, output)
    return ExitCode.OK


def _measured(args: argparse.Namespace, output: Output) -> Path:
    """Build and profile; returns the report."""
    from py_driver.authoring.benchmark import scripts_of, titles_of
    from py_driver.authoring.dev_build import python_of
    from py_driver.authoring.local_variant import local_variant
    from py_driver.inspecting.profiler import profile
    from py_driver.plan.plan import plan_directory

    check_project(args.directory)
    scripts = scripts_of(args.directory)
    machine, releases = machine_of(args), releases_of(args)
    archs = local_archs(args) or machine.archs
    variant = local_variant(plan_directory(args.directory, releases), machine.torch, archs, machine.family)
    if variant.configuration.family != "cuda":
        message = f"Nsight Compute profiles CUDA code, and {variant.name} has none"
        raise error(Code.USAGE, message, help="profile it on a machine with an NVIDIA GPU usable by torch")
    build = built(args, args.directory, machine, releases, output)
    python = python_of(build, machine, releases, output)
    titles = titles_of(build, scripts, python)
    workload = args.workload or titles[0]
    if workload not in titles:
        hint = did_you_mean(workload, titles)
        advice = f"{hint}{' ' if hint else ''}workloads: {', '.join(titles)}"
        raise error(Code.USAGE, f"there is no workload `{workload}`", help=advice)
    return profile(build, scripts, workload, args.kind or _SET, python, output)


def _show(launches: Sequence[Profiled], earlier: Sequence[Profiled], output: Output) -> None:
    """Print the metrics for people."""
    from py_driver.inspecting.profile import table

    header, *rows = table(launches, earlier)
    output.table(header, rows)
    for launch in launches:
        for text in launch.advice[:_ADVICE]:
            output.say(f"{launch.kernel}: {text}")
