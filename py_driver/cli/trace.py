"""`driver trace`: runs a command, records what Triton compiles, and lists it in aot.toml."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.run import add_local, built, check_project, machine_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse

    from py_driver.authoring.triton_trace import Call, Trace
    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "trace",
        "swiglu -- python -m pytest swiglu/tests",
        "swiglu --replace -- python swiglu/benchmarks/run.py",
        more="CMD finds the kernel as with `driver run`. Triton runs it, so it needs a GPU.",
    )
    add_local(parser)
    command = parser.group("run")
    command.add_argument(
        "--replace", action="store_true", help="list only what was recorded (default: add it to the list)"
    )
    parser.group("report").add_argument("--json", action="store_true", help="print what was recorded as JSON")
    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} -- CMD ..."


def run(args: argparse.Namespace, output: Output) -> int:
    """Build, run and record; returns the exit code of the command.

    Raises:
        DriverError: USAGE without a command; NO_VARIANTS if nothing was recorded; an error in the project; see
            `dev_build`.
    """
    from py_driver.authoring.dev_build import python_of
    from py_driver.authoring.session import environment, start, wait
    from py_driver.authoring.triton_trace import ahead_text, listed, read_trace, recording
    from py_driver.cli.arguments import releases_of
    from py_driver.manifest.ahead import AHEAD
    from py_driver.plan.project import load
    from py_driver.system.files import write, writing

    if not args.command:
        raise error(Code.USAGE, "there is no command to record", help="write it after `--`, e.g. `-- python test.py`")
    check_project(args.directory)
    machine, releases = machine_of(args), releases_of(args)
    build = built(args, args.directory, machine, releases, output)
    python = python_of(build, machine, releases, output)
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        log = Path(scratch) / "trace.jsonl"
        code = wait(start(args.command, build, python, more=recording(environment(build, python), log)))
        project = load(args.directory, releases)
        trace = read_trace(log, project)
    if code:
        output.say(f"{AHEAD} is not written: the command ended with {code}")
        return code
    if not trace.calls:
        message = "Triton compiled no function of the project that aot.toml can list"
        raise error(Code.NO_VARIANTS, message, help="run a command that launches its kernels, on a machine with a GPU")
    path = args.directory / AHEAD
    before = [] if args.replace else listed(project)
    known = {call.key for call in before}
    new = [call for call in trace.calls if call.key not in known]
    if new or args.replace:
        with writing(path):
            write(path, ahead_text([*before, *new], project).encode())
    if args.json:
        output.json(_as_json(trace, new))
    else:
        _show(trace, new, path, output)
    return ExitCode.OK


def _as_json(trace: Trace, new: list[Call]) -> dict[str, object]:
    """The recorded calls as a value for JSON."""
    calls = [
        {"function": call.function, "signature": dict(call.signature), "config": dict(call.config), "new": call in new}
        for call in trace.calls
    ]
    return {"calls": calls, "left": list(trace.left), "tuned": list(trace.tuned), "others": trace.others}


def _show(trace: Trace, new: list[Call], path: Path, output: Output) -> None:
    """Report the recorded calls."""
    functions = {call.function for call in trace.calls}
    counts = f"{counted(len(trace.calls), 'compile')} of {counted(len(functions), 'function')}"
    output.say(printable(f"{path}: {counts}, {len(new)} new"))
    for function in trace.left:
        output.say(f"note: {function} has heuristics, or arguments that aot.toml cannot list; it is left to Triton")
    for function in trace.tuned:
        output.say(f"note: only the configurations of {function} that the autotuner chose are listed")
    if trace.others:
        output.say(f"note: {counted(trace.others, 'compile')} of other packages' functions not listed")
