"""Runs a command under a tool that finds a kernel's errors, stops in it, or records when it ran."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

from py_driver.errors import Code, ExitCode, error
from py_driver.inspecting.disassembler import Disassembler
from py_driver.resources import resource
from py_driver.system.files import keep_from_git, write, writing
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.inspecting.assembly import Kernel
    from py_driver.output import Output

CHECKERS: Final = ("memcheck", "racecheck", "initcheck", "synccheck")
"""The tools of compute-sanitizer."""

GDB: Final = "gdb"
NSYS: Final = "nsys"

LINES: Final = ("-lineinfo",)
"""Flags of nvcc for line information in machine code, which is otherwise unchanged."""

DEBUG: Final = ("-G", "-g")
"""Flags of nvcc for a debugger: device and host code without optimisation."""

LOGS: Final = "logs"
"""The directory of a project for the records of tools."""

_FILTERS: Final = 100
"""The largest number of kernels in compute-sanitizer's filter; with more kernels, it checks every kernel that runs."""

_ALLOCATOR: Final = {
    # torch's allocator returns parts of larger blocks, so that a write past the end would not be noticed.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "PYTORCH_ALLOC_CONF": "expandable_segments:False",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
}

_STOPPED: Final = ("info cuda kernels", "backtrace 8", "info args", "info locals", "info cuda threads", "kill", "quit")
"""The commands of a non-interactive debugger at its first stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Instrumented:
    """A command under a tool.

    Attributes:
        command: what to run.
        environ: additional environment variables.
        records: the file that the tool writes; None if it writes none.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    records: Path | None = None


def instrumented(
    tool: str, command: Sequence[str], build: DevBuild, output: Output, *, interactive: bool
) -> Instrumented:
    """A command that runs under a tool.

    Args:
        tool: one of `CHECKERS`, `GDB` or `NSYS`.
        command: the user's command.
        build: the build of the variant that it uses.
        output: shows progress.
        interactive: whether the terminal is interactive.

    Raises:
        DriverError: USAGE if the variant has no CUDA code; SET_UP if the tool is missing.
    """
    if build.backend != "cuda":
        message = f"--under {tool} is for CUDA code, and {build.variant.name} has none"
        raise error(Code.USAGE, message, help="run it on a machine with an NVIDIA GPU usable by torch")
    if tool in CHECKERS:
        kernels = Disassembler(output).kernels(build.path)
        return Instrumented(command=sanitizer(_sanitizer(output), tool, command, kernels), environ=_ALLOCATOR)
    if tool == GDB:
        program = on_path("cuda-gdb", "the debugger of the CUDA toolkit (Debian: apt install nvidia-cuda-gdb)")
        script = build.path.parent / "gdb.txt"
        text = gdb_script(build.directory, Disassembler(output).kernels(build.path), batch=not interactive)
        with writing(script):
            write(script, text.encode())
        batch = [] if interactive else ["-batch"]
        return Instrumented(command=(program, "-quiet", *batch, "-x", str(script.absolute()), "--args", *command))
    program = on_path("nsys", "NVIDIA Nsight Systems (Debian: apt install nsight-systems)")
    record = log_file(build.directory, f"{build.name}.nsys-rep")
    options = ("--trace=cuda,nvtx,osrt", "--force-overwrite=true", f"--output={record}")
    return Instrumented(command=(program, "profile", *options, *command), records=record)


def sanitizer(program: str, tool: str, command: Sequence[str], kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """The command line of compute-sanitizer, which checks only the project's own kernels.

    Args:
        program: the path of compute-sanitizer.
        tool: one of `CHECKERS`.
        command: the command to run.
        kernels: of the project.
    """
    symbols = sorted({kernel.symbol for kernel in kernels if kernel.is_entry})
    only = [f"--kernel-name=kne={symbol}" for symbol in symbols] if len(symbols) <= _FILTERS else []
    return (program, f"--tool={tool}", f"--error-exitcode={int(ExitCode.LOAD)}", *only, *command)


def gdb_script(directory: Path, kernels: Sequence[Kernel], *, batch: bool) -> str:
    """The script of cuda-gdb: the directory of sources, a breakpoint in each kernel, the run, and the output at a stop.

    Args:
        directory: of the project.
        kernels: of the project.
        batch: whether it is not interactive.
    """
    lines = [
        "set confirm off",
        "set pagination off",
        "set print thread-events off",
        "set cuda api_failures hide",
        "set breakpoint pending on",
        f"directory {directory.absolute()}",
        *(f"break {name}" for name in dict.fromkeys(_function(kernel) for kernel in kernels if kernel.is_entry)),
        "run",
        # The breakpoint is in the host function of this name, which launches the kernel next.
        "delete",
        "set cuda break_on_launch application",
        "continue",
        *(_STOPPED if batch else ()),
    ]
    return "".join(f"{line}\n" for line in lines)


def _function(kernel: Kernel) -> str:
    """The name of a function without namespaces and template arguments: the debugger finds all its instances."""
    return kernel.plain.partition("<")[0].rpartition("::")[2]


def log_file(directory: Path, name: str) -> Path:
    """The file for a tool's record, in `logs/`, which git ignores.

    Raises:
        DriverError: PERMISSION or NO_SPACE if the directory cannot be made.
    """
    logs = directory.absolute() / LOGS
    with writing(logs):
        logs.mkdir(exist_ok=True)
        keep_from_git(logs)
    return logs / name


def _sanitizer(output: Output) -> str:
    """compute-sanitizer, in an environment of its own in the cache."""
    requirements = tomli.loads(resource("sass.toml"))["sanitizer"]["requirements"]
    python = ensure_venv("sanitizer", requirements, output)
    [program] = python.parents[1].glob("lib/python*/site-packages/nvidia/cu*/compute-sanitizer/compute-sanitizer")
    return str(program)


def on_path(program: str, what: str) -> str:
    """The path of a tool that the user has installed.

    Raises:
        DriverError: SET_UP if it is missing.
    """
    found = shutil.which(program)
    if found is None:
        raise error(Code.SET_UP, f"there is no `{program}` on PATH", help=f"install {what}, or put it on PATH")
    return os.fspath(Path(found).absolute())
