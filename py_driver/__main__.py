"""The program `driver`: runs a command line and turns every failure into one clear message and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until `main` is there, Ctrl-C ends the process; Python would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from py_driver.cli import run_command_line
from py_driver.errors import Code, DriverError, ExitCode, as_json, error
from py_driver.output import Output, open_standard_streams, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

INTERNAL = 70
"""Exit code of a bug in the driver, after sysexits.h (EX_SOFTWARE)."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the driver.

    Args:
        arguments: the command line without the program's name (default: the process's own).

    Returns:
        The exit code; see `py_driver.errors`.
    """
    open_standard_streams()
    output = Output()
    arguments = sys.argv[1:] if arguments is None else arguments
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # All as Ctrl-C: Bazel is stopped, and nothing half done is left. `nohup` stays in force.
        if signal.getsignal(name) is signal.SIG_DFL:
            signal.signal(name, _interrupt)
    try:
        return _run(arguments, output)
    except KeyboardInterrupt:
        output.say("interrupted")
        return ExitCode.INTERRUPT
    except Exception as problem:
        if known := _of_the_machine(problem):
            output.fail(known)
            return known.exit_code
        if os.environ.get("DRIVER_TRACEBACK") == "1":
            raise
        output.say(f"internal error: {type(problem).__name__}: {printable(str(problem))}")
        output.say("this is a bug in the driver; please report it with the output of DRIVER_TRACEBACK=1")
        return INTERNAL
    finally:
        _let_go()


def _of_the_machine(problem: Exception) -> DriverError | None:
    """The error for a failure of the system that can happen everywhere; None for a bug."""
    if not isinstance(problem, OSError):
        return None
    if problem.errno == errno.ENOSPC:
        return error(Code.NO_SPACE, f"no space left: {problem}", help="free some space, also where stdout goes")
    if problem.errno == errno.ENAMETOOLONG:
        return error(Code.FILE_MISSING, f"the path is too long: {problem.filename}")
    try:
        Path.cwd()
    except FileNotFoundError:
        return error(Code.FILE_MISSING, "the working directory no longer exists", help="change to another one")
    return None


def _let_go() -> None:
    """Write what is left in buffers; what cannot be written is dropped, so that Python does not raise again at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(arguments: Sequence[str], output: Output) -> int:
    """Run a command line and print its errors, with `--json` on stdout, too; the exit code."""
    code: int = ExitCode.OK
    try:
        try:
            code = run_command_line(arguments, output)
            sys.stdout.flush()
        except DriverError as failure:
            code = failure.exit_code
            output.fail(failure)
            if "--json" in arguments:
                output.json({"errors": [as_json(diagnostic) for diagnostic in failure.diagnostics]})
                sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader of stdout has gone
    return code


if __name__ == "__main__":
    sys.exit(main())
