"""`driver batch`: builds many candidates of a kernel together, and judges each."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, release, releases_of
from py_driver.errors import Code, DriverError, ExitCode, Span
from py_driver.output import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.authoring.machine import Machine
    from py_driver.cli import Parser, Subparsers
    from py_driver.inspecting.assembly import Kernel
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.trials.build import Module
    from py_driver.trials.projects import Sources, Target

_STDIN: Final = "-"
_SECONDS: Final = 60.0


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "batch",
        "candidates.jsonl --torch 2.13",
        "- --python .venv/bin/python --archs 9.0 --timeout 10",
        more="FILE has a candidate on each line, and stdout gets a verdict for each, in the order of FILE.",
    )
    parser.add_argument(
        "file", metavar="FILE", help="file with a JSON object on each line: see docs/development.md; `-` is stdin"
    )
    select = parser.group("select")
    which = select.add_mutually_exclusive_group()
    which.add_argument(
        "--python",
        metavar="PATH",
        help="build for the torch of this interpreter, and judge with it (default: the first python3 with torch)",
    )
    which.add_argument(
        "--torch",
        metavar="M.N",
        type=release,
        help="install this torch release for CPUs, e.g. 2.13, build for it, and judge with it",
    )
    _add_archs(parser)
    add_matrix(select)
    from py_driver.cli.build import add_how

    add_how(parser)
    parser.group("run").add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=_SECONDS,
        help=f"end the process of a candidate that has no answer after this time (default: {_SECONDS:g})",
    )


def _add_archs(parser: Parser) -> None:
    """Add the option for GPU architectures."""
    from py_driver.cli.build import archs_of

    parser.group("select").add_argument(
        "--archs",
        metavar="LIST",
        type=archs_of,
        help="build device code for these GPU architectures, e.g. 9.0 (default: TORCH_CUDA_ARCH_LIST, else the "
        "architectures of this machine's GPUs, else all default architectures of the toolkit)",
    )


def seconds(text: str) -> float:
    """A time from the command line."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds above 0")
    return found


def run(args: argparse.Namespace, output: Output) -> int:
    """Build and judge; OK if each candidate has a verdict, whatever it is.

    Raises:
        DriverError: an error in the file, or one that affects all candidates.
    """
    from py_driver.cli.run import local_choices
    from py_driver.inspecting.disassembler import Disassembler
    from py_driver.trials.build import build_trials
    from py_driver.trials.candidates import read_candidates
    from py_driver.trials.projects import compose, plan_trial
    from py_driver.trials.verdicts import verdicts

    shown = "<stdin>" if args.file == _STDIN else args.file
    candidates = read_candidates(_text(args.file, shown), shown)
    composed = compose(candidates, shown)
    machine, releases = _machine(args), releases_of(args)
    by_family: dict[str, dict[str, Sources]] = {}
    for sources in composed:
        by_family.setdefault(sources.family, {})[sources.key] = sources
    target = _target(args, machine, releases, output)
    trials = [plan_trial([*own.values()], target, releases, output) for own in by_family.values()]
    built = build_trials(trials, releases, output, local_choices(args))
    ran = f"{counted(built.ran, 'action')} ran, {built.cpu_seconds:.1f} s of CPU time"
    output.say(f"{counted(len(candidates), 'candidate')}, {len(built.of)} of them different: {ran}")
    tools: list[Disassembler] = []

    def kernels(module: Module) -> Sequence[Kernel]:
        if not tools:
            tools.append(Disassembler(output))
        return tools[0].kernels(module.libraries)

    counts: dict[str, int] = {}
    pairs = list(zip(candidates, composed, strict=True))
    with closing(verdicts(pairs, built.of, target.python, args.timeout, kernels)) as judged:
        for verdict in judged:
            counts[verdict["status"]] = counts.get(verdict["status"], 0) + 1
            output.data(json.dumps(verdict, ensure_ascii=False))
    output.say(", ".join(f"{count} {status}" for status, count in counts.items()))
    return ExitCode.OK


def _text(file: str, shown: str) -> str:
    """The text of the candidates.

    Raises:
        DriverError: FILE_MISSING or PERMISSION; BAD_VALUE if it is not UTF-8.
    """
    from py_driver.errors import Diagnostic
    from py_driver.system.files import reading

    if file == _STDIN:
        content = sys.stdin.buffer.read()
    else:
        with reading(Path(file)):
            content = Path(file).read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise DriverError([Diagnostic(Code.BAD_VALUE, "this is not UTF-8", Span(shown, line, 1))]) from None


def _machine(args: argparse.Namespace) -> Machine:
    """The torch and the GPUs to judge with."""
    from py_driver.authoring.machine import TORCH_PYTHON, this_machine

    if args.python:
        os.environ[TORCH_PYTHON] = args.python
    return this_machine(args.torch or "")


def _target(args: argparse.Namespace, machine: Machine, releases: Releases, output: Output) -> Target:
    """The target that candidates are built for.

    Raises:
        DriverError: SET_UP if `--archs native` finds no GPU; see `python_of_torch`.
    """
    from py_driver.authoring.machine import python_of_torch
    from py_driver.cli.build import named_archs
    from py_driver.trials.projects import Target

    listed = (getattr(args, "listed", None) or {}).get("TORCH_CUDA_ARCH_LIST", ())
    archs = tuple(named_archs(args) or listed or machine.archs)
    python = python_of_torch([], machine, releases, output)
    return Target(torch=machine.torch, python=python, archs=archs)
