"""`driver bench`: builds the variant for this machine, checks it, and times it beside its reference."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.cli.run import add_local, built, check_project, machine_of
from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.output import printable
from py_driver.spelling import near_path
from py_driver.system.files import write, writing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from py_driver.authoring.benchmark import Benchmarks
    from py_driver.authoring.dev_build import DevBuild
    from py_driver.authoring.machine import Machine
    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_HEADER = (
    "workload",
    "median us",
    "+-",
    "launch us",
    "rate",
    "of peak",
    "reference us",
    "speed",
    "against us",
    "speed",
)
_NUMBERS = (*range(1, len(_HEADER)),)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "bench", "relu --against HEAD~1", "relu --backend cuda --output results/relu.json")
    measure = parser.group("measure")
    add_local(parser)
    measure.add_argument(
        "--against",
        metavar="REV|FILE",
        help="compare with another revision of the project, e.g. HEAD~1, which is built and timed too, or with a "
        "FILE.json of --output",
    )
    measure.add_argument(
        "--compile",
        action="store_true",
        help="also time the reference with torch.compile, mode max-autotune-no-cudagraphs",
    )
    measure.add_argument(
        "--output",
        metavar="FILE.json",
        type=Path,
        help="also write the result, in the format of `kernels benchmark --output`, and charts beside it: FILE.svg, "
        "and FILE.roofline.svg for workloads with bytes_NAME and flops_NAME",
    )
    parser.group("report").add_argument(
        "--json", action="store_true", help="print the result as JSON instead of a table"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Benchmark; LOAD if a result is wrong, else OK.

    Raises:
        DriverError: see `run_benchmarks`.
    """
    from py_driver.authoring.benchmark import compared, run_benchmarks, scripts_of, times_of, with_shares
    from py_driver.authoring.ceilings import ceilings
    from py_driver.authoring.dev_build import python_of
    from py_driver.publishing.git import checked_out

    check_project(args.directory)
    if args.output is not None:
        _check_output(args.output)
    scripts = scripts_of(args.directory)
    against = args.against
    earlier = times_of(Path(against)) if against and against.endswith(".json") else None
    machine, releases = machine_of(args), releases_of(args)
    with ExitStack() as places:
        there = None
        if against is not None and earlier is None:
            there = places.enter_context(checked_out(args.directory, against))
        builds = [built(args, args.directory, machine, releases, output)]
        if there is not None:
            builds.append(_built_from(args, there, machine, releases, output))
        python = python_of(builds[0], machine, releases, output)
        peaks = ceilings(builds[0], python, output)
        done = with_shares(run_benchmarks(builds, scripts, python, output, compiled=args.compile), peaks)
    if earlier is not None:
        done = compared(done, earlier)
        if not any("base" in workload for workload in done.workloads):
            output.warn(f"{against} has none of these workloads; nothing is compared")
    if args.output is not None:
        _write(args.output, done, peaks)
    if args.json:
        output.json(done.as_json())
    else:
        rows = [row for workload in done.workloads for row in [_row(workload, peaks), *_peer_rows(workload, peaks)]]
        output.table(_HEADER, rows, right=_NUMBERS)
        output.say(_machine(done))
    _tell(done, args.against, output)
    return ExitCode.LOAD if done.wrong else ExitCode.OK


def _tell(done: Benchmarks, against: str | None, output: Output) -> None:
    """Report workloads that failed, that are not compared, and that need another measurement."""
    from py_driver.authoring.device import throttled_by

    for workload in done.workloads:
        if reasons := throttled_by(workload.get("clocks_event_reasons", "")):
            output.warn(f"{workload['workload']} was timed with lower clocks ({', '.join(reasons)}); measure it again")
        if workload.get("base_problem"):
            output.warn(
                f"{against} cannot run {workload['workload']}, which is not compared: "
                f"{printable(workload['base_problem'])}"
            )
        for peer in workload.get("peers", ()):
            if "problem" in peer:
                why = printable(peer["problem"].splitlines()[0])
                output.say(f"note: {workload['workload']} is not compared with {printable(peer['name'])}: {why}")
        if workload.get("problem"):
            output.say(f"{workload['workload']} failed: {printable(workload['problem'].splitlines()[0])}", "red")


def _built_from(
    args: argparse.Namespace, directory: Path, machine: Machine, releases: Releases, output: Output
) -> DevBuild:
    """Build another revision of the project; its errors name the revision.

    Args:
        args: the command line.
        directory: the directory of the revision.
        machine: see `built`.
        releases: see `built`.
        output: see `built`.

    Raises:
        DriverError: see `built`.
    """
    try:
        return built(args, directory, machine, releases, output)
    except DriverError as failure:
        output.say(f"{args.against} of {args.directory} cannot be built:", "red")
        old, new = f"{directory}/", f"{args.against}:"
        spans = [
            diagnostic.span and diagnostic.span._replace(file=diagnostic.span.file.replace(old, new))
            for diagnostic in failure.diagnostics
        ]
        raise DriverError(
            diagnostic._replace(
                span=span, message=diagnostic.message.replace(old, new), text=diagnostic.text.replace(old, new)
            )
            for diagnostic, span in zip(failure.diagnostics, spans, strict=True)
        ) from None


def _check_output(path: Path) -> None:
    """Check that a result can be written.

    Raises:
        DriverError: USAGE or FILE_MISSING if it cannot.
    """
    if path.suffix != ".json" or path.is_dir():
        raise error(Code.USAGE, f"--output {path} is not the name of a .json file")
    if not path.absolute().parent.is_dir():
        advice = near_path(path.parent) or f"create it: mkdir -p {shlex.quote(str(path.parent))}"
        raise error(Code.FILE_MISSING, f"there is no directory {path.parent} to write {path.name} to", help=advice)


def _write(path: Path, done: Benchmarks, peaks: Mapping[str, float]) -> None:
    """Write the result and its charts."""
    from py_driver.authoring.picture import picture
    from py_driver.authoring.roofline import roofline

    texts = {
        path: json.dumps(done.as_json(), indent=2) + "\n",
        path.with_suffix(".svg"): picture(done),
        path.with_suffix(".roofline.svg"): roofline(done, peaks),
    }
    for target, text in texts.items():
        if text:
            with writing(target):
                write(target, text.encode())


def _row(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> list[str]:
    """A workload as a row of the table."""
    from py_driver.authoring.ceilings import rate_of, share_of

    if "times" not in workload:
        return [workload["workload"], "failed", *[""] * (len(_HEADER) - 2)]
    times = workload["times"]
    low, high = times["interval_us"]
    row = [workload["workload"], f"{times['median_us']:.2f}", f"{(high - low) / 2 / times['median_us']:.1%}"]
    row.append(f"{times['host_us']:.1f}" if "host_us" in times else "")
    row += [rate_of(workload, peaks), share_of(workload, peaks)]
    for other in ("reference", "base"):
        row += (
            [f"{workload[other]['median_us']:.2f}", _speed(times, workload[other])] if other in workload else ["", ""]
        )
    return row


def _peer_rows(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> Iterator[list[str]]:
    """The other ways to compute a workload, each with the kernel's speed relative to it."""
    for peer in workload.get("peers", ()):
        if "problem" not in peer:
            row = _row(
                {**workload, "workload": f"  {printable(peer['name'])}", "times": peer, "reference": peer}, peaks
            )
            yield [*row[:6], "", _speed(workload["times"], peer), *[""] * (len(_HEADER) - 8)]


def _speed(times: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The relative speed of two measurements: `1.31x`, or `same` if the intervals overlap."""
    from py_driver.publishing.timings import SAME, verdict

    ratio, word = verdict(times, other)
    return word if word == SAME else f"{ratio:.2f}x"


def _machine(done: Benchmarks) -> str:
    """The machine of the benchmark, and the method of timing."""
    ways = {
        "cupti": "durations of kernels that the GPU reports, cold L2",
        "events": "times between events on the stream, cold L2",
        "host": "the host's clock",
    }
    methods = {workload["times"]["method"] for workload in done.workloads if "times" in workload}
    on = done.machine.get("gpu") if done.machine.get("gpu") != "none" else done.machine.get("cpu")
    how = "; ".join(ways[method] for method in sorted(methods))
    return f"{on}, torch {done.machine.get('pytorchVersion')}, {done.machine.get('backend')}: {how}"
