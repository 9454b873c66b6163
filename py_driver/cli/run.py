"""`driver run`: builds the variant for this machine, and runs a command with it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from py_driver.bazel.remote import remote_of
from py_driver.cli import add_command
from py_driver.cli.arguments import add_directory, add_matrix, release, releases_of
from py_driver.cli.bindings import PYBIND, add_binding, pythons_of_build_toml
from py_driver.cli.further import add_further, check_no_further
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted
from py_driver.plan.projects import is_extension

if TYPE_CHECKING:
    import argparse
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.authoring.machine import Machine
    from py_driver.bazel.invocation import Choices
    from py_driver.cli import Parser, Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output


FURTHER: Final = "build it too, for the command to import; no kernel then comes from the Hub"
"""The use of `--with` for commands that run something."""


def add_local(parser: Parser, *, archs: bool = True) -> None:
    """Add the arguments of commands that build the variant for this machine.

    Args:
        parser: the parser of the command.
        archs: whether the command can build for other GPUs than this machine's.
    """
    from py_driver.cli.build import add_how, archs_of
    from py_driver.matrix.backends import BUILT

    add_directory(parser)
    select = parser.group("select")
    select.add_argument(
        "--torch",
        metavar="M.N",
        type=release,
        help="install this torch release for CPUs, e.g. 2.13, and build for it (default: the torch of the first "
        "python3)",
    )
    select.add_argument(
        "--backend",
        choices=[*BUILT],
        help="build for this backend (default: the backend of a GPU usable by torch, else cpu)",
    )
    if archs:
        select.add_argument(
            "--archs",
            metavar="LIST",
            type=archs_of,
            help="build device code for these GPU architectures, e.g. 9.0 (default: TORCH_CUDA_ARCH_LIST or "
            "PYTORCH_ROCM_ARCH if there is a GPU or a setup.py, else the architectures of this machine's GPUs)",
        )
    add_matrix(select)
    add_how(parser)


def add_under(parser: Parser) -> None:
    """Add the options for tools under which the variant runs.

    Args:
        parser: the parser of the command.
    """
    command = parser.group("run")
    command.add_argument(
        "--under",
        metavar="TOOL",
        choices=["memcheck", "racecheck", "initcheck", "synccheck", "gdb", "nsys"],
        help="run it under a tool: memcheck, racecheck, initcheck or synccheck of compute-sanitizer check the "
        "project's own kernels; gdb (cuda-gdb) stops in the first kernel; nsys records a timeline into logs/",
    )
    command.add_argument(
        "--debug",
        action="store_true",
        help="compile CUDA sources for a debugger (-G -g): slow code, under a separate id",
    )


def check_project(directory: Path) -> None:
    """Check first that a directory is a project: other errors matter only then.

    Raises:
        DriverError: see `read_manifest`.
    """
    from py_driver.plan.project import read_manifest

    read_manifest(directory)


def local_choices(args: argparse.Namespace) -> Choices:
    """The build choices for this machine, from the command line and, for a remote server, from config.toml."""
    from py_driver.cli.build import choices_of

    return replace(choices_of(args), remote=remote_of(None, None))


def local_archs(args: argparse.Namespace) -> tuple[str, ...]:
    """The GPU architectures of a command line; empty for those of this machine."""
    from py_driver.cli.build import NATIVE

    return () if args.archs == (NATIVE,) else args.archs or ()


def machine_of(args: argparse.Namespace) -> Machine:
    """The torch and the GPUs that the variant has to run with."""
    from py_driver.authoring.machine import this_machine

    return this_machine(args.torch or "", args.backend or "")


def built(  # noqa: PLR0913  (as `dev_build`)
    args: argparse.Namespace,
    directory: Path,
    machine: Machine,
    releases: Releases,
    output: Output,
    after: DevBuild | None = None,
) -> DevBuild:
    """Build the variant of a project, and report it in a line; for `after` see `dev_build`."""
    from py_driver.authoring.dev_build import dev_build
    from py_driver.bazel.invocation import CudaCompile
    from py_driver.editor.project import refresh
    from py_driver.inspecting.instruments import DEBUG, LINES
    from py_driver.plan.overrides import with_cuda_flags

    archs = local_archs(args)
    choices = local_choices(args)
    pybind = getattr(args, "binding", "") == PYBIND
    flags: Sequence[str] = ()
    kind = ""
    if getattr(args, "debug", False):
        # A debugger needs the code of an nvcc that is not split into phases.
        flags, choices, kind = DEBUG, replace(choices, cuda_compile=CudaCompile.MONOLITHIC), "debug"
    elif getattr(args, "under", None):
        flags, kind = LINES, "lines"
    build = dev_build(
        directory,
        machine,
        releases,
        output,
        choices,
        archs=archs,
        listed=getattr(args, "listed", None),
        change=lambda plan: with_cuda_flags(plan, flags),
        kind=kind,
        after=after,
        pybind=pybind,
    )
    if not pybind:
        refresh(directory, releases, output)
    actions = f"{counted(build.ran, 'action')} ran"
    output.say(f"{build.unique_id} for {build.variant.name}: {actions}, {build.seconds:.1f} s")
    if kind == "debug" and build.backend != "cuda":
        output.say(f"note: --debug has no effect: {build.variant.name} has no CUDA code")
    return build


def ran(args: argparse.Namespace, command: Sequence[str], output: Output) -> int:
    """Build the variant and run a command with it; returns the command's exit code.

    Raises:
        DriverError: USAGE for `--under` without a GPU; see `dev_build`, `further_kernels`, `requirements_of_command`,
            `instrumented` and `start`.
    """
    from py_driver.authoring.dev_build import python_of
    from py_driver.authoring.further_kernels import further_kernels
    from py_driver.authoring.script_requirements import requirements_of_command
    from py_driver.authoring.session import start, wait
    from py_driver.inspecting.instruments import instrumented

    check_project(args.directory)
    more = requirements_of_command(command)
    machine, releases = machine_of(args), releases_of(args)
    if args.under and not machine.archs:
        message = f"--under {args.under} needs CUDA code and a GPU usable by torch, and there is none"
        raise error(Code.USAGE, message, help="run it on a machine with an NVIDIA GPU")
    others = further_kernels(args.directory, args.further, machine, releases)
    build = built(args, args.directory, machine, releases, output)
    build = replace(build, others=tuple(built(args, path, machine, releases, output) for path in others))
    python = python_of(build, machine, releases, output, more)
    if not args.under:
        return wait(start(command, build, python))
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    call = instrumented(args.under, command, build, output, interactive=interactive)
    code = wait(start(call.command, build, python, more=call.environ))
    if call.records:
        output.say(f"recorded: {call.records}")
    return code


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "run",
        "relu -- python example.py",
        "relu --watch -- python serve.py",
        more="CMD finds the kernel by `import NAME` and by kernels.get_kernel. Without CMD, your shell runs.",
    )
    add_under(parser)
    add_local(parser)
    add_further(parser, FURTHER)
    add_binding(parser)
    command = parser.group("run")
    command.add_argument(
        "--watch",
        action="store_true",
        help="rebuild after each change of a source and restart CMD, unless CMD reloads by itself with "
        "rules_torch_kernels.live; CMD gets no stdin; without CMD, only build",
    )
    parser.group("report").add_argument(
        "--json", action="store_true", help="build, run nothing, and print the built variant as JSON"
    )
    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [-- CMD ...]"


def run(args: argparse.Namespace, output: Output) -> int:
    """Build and run; returns the exit code of the command.

    Raises:
        DriverError: USAGE for `--json` with a command or --watch; see `dev_build`.
    """
    if is_extension(args.directory):
        from py_driver.cli import extension

        check_no_further(args, args.directory)
        return extension.run(
            args, output, extension.Local(lambda: machine_of(args), local_choices(args), local_archs(args))
        )
    pythons_of_build_toml(args)
    if args.under and (args.watch or args.json or not args.command):
        raise error(Code.USAGE, "--under needs a command after `--`, and cannot be combined with --watch or --json")
    if args.further and (args.watch or args.json):
        message = "--with needs a command that runs once; it cannot be combined with --watch or --json"
        raise error(Code.USAGE, message)
    if args.json and (args.watch or args.command):
        raise error(Code.USAGE, "--json builds only; it cannot be combined with --watch or a command")
    if args.json:
        from py_driver.authoring.session import registration

        check_project(args.directory)
        output.json(registration(built(args, args.directory, machine_of(args), releases_of(args), output)))
        return ExitCode.OK
    if args.watch:
        return _watched(args, output)
    return ran(args, args.command or [_shell()], output)


def _shell() -> str:
    """The user's shell, or the system's if that does not exist."""
    named = os.environ.get("SHELL", "")
    return named if shutil.which(named) else "/bin/sh"


def _watched(args: argparse.Namespace, output: Output) -> int:
    """Build and run after each change, until Ctrl-C."""
    from py_driver.authoring.dev_build import python_of
    from py_driver.authoring.script_requirements import requirements_of_command
    from py_driver.authoring.session import start
    from py_driver.authoring.watch import watch

    check_project(args.directory)
    more = requirements_of_command(args.command or ())
    machine, releases, command = machine_of(args), releases_of(args), args.command

    def started(build: DevBuild) -> subprocess.Popen[bytes]:
        return start(command, build, python_of(build, machine, releases, output, more), alone=True)

    watch(
        args.directory,
        lambda last: built(args, args.directory, machine, releases, output, last),
        started if command else None,
        output,
    )
    return ExitCode.OK
