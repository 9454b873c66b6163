"""Runs Bazel as a child of the driver, or replaces the driver by it."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from py_driver.bazel.console import ACTIONS_SHOWN, Console, own_diagnostics
from py_driver.bazel.events import Events, merged, read_events
from py_driver.bazel.rc import OPTION as ANNOUNCE
from py_driver.bazel.sandbox import is_hermetic, settings_file, toolchains
from py_driver.bazel.spawns import keep_log
from py_driver.errors import Code, Diagnostic, DriverError, ExitCode, error
from py_driver.output import printable
from py_driver.system.cache import cache_root
from py_driver.system.environment import curated
from py_driver.system.interrupts import held

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.bazel.find import Bazel
    from py_driver.output import Output

_OK = 0
_BUILD_FAILED = 1
_CRASHED = 37
_LOST = 39
_RETRIES = {
    _CRASHED: (1, "Bazel crashed; trying again."),
    _LOST: (5, "A cache has lost a result that the build needs; trying again."),
}
"""The number of retries and the message by exit code. Bazel 7.7.1 rarely crashes after an action has failed, while
others end: the second run reports the failed action."""
_INTERRUPTED = 8
_FAILURES = {
    _BUILD_FAILED: (Code.BUILD_FAILED, "the build failed"),
    2: (Code.USAGE, "Bazel does not understand its command line or a .bazelrc"),
    3: (Code.BUILD_FAILED, "tests failed"),
    4: (Code.NO_VARIANTS, "the targets hold no tests"),
    7: (Code.USAGE, "the query failed"),
    _INTERRUPTED: (Code.INTERRUPTED, "Bazel was interrupted"),
    9: (Code.SET_UP, "another Bazel command holds the workspace"),
    32: (Code.SET_UP, "Bazel's remote environment failed"),
    33: (Code.SET_UP, "Bazel ran out of memory"),
    34: (Code.NO_NETWORK, "a remote cache or executor failed"),
    36: (Code.SET_UP, "Bazel met a problem of this machine"),
    _CRASHED: (Code.SET_UP, "Bazel failed with an internal error"),
    38: (Code.NO_NETWORK, "Bazel could not report its build events"),
    _LOST: (Code.NO_NETWORK, "a remote cache lost a file that the build needs, or does not send it"),
    45: (Code.NO_NETWORK, "Bazel could not report its build events"),
    48: (Code.SET_UP, "Bazel could not resolve the modules of MODULE.bazel"),
}
# Without path conversion, events name files of this machine; with it, blobs of a remote cache.
_OPTIONS = (
    "--color=no",
    "--show_progress_rate_limit=0.2",
    "--nobuild_event_json_file_path_conversion",
    ANNOUNCE,
    "--ui_event_filters=+info",
)
_PLAIN = ("--curses=no",)
_LIVE = ("--curses=yes", f"--ui_actions_shown={ACTIONS_SHOWN}", "--terminal_columns=1000")
"""Each running action has its own line, which is not cut."""
_WATCH_SECONDS = 20
"""The interval of reading events while Bazel runs: ten thousand actions take a tenth of a second."""
_LABELS_SHOWN = 5
_LINES_SHOWN = 6
_REMOTE = (34, _LOST)
_NO_RETRIES = "--experimental_remote_cache_eviction_retries=0"
"""Prevents Bazel's own retry, which would overwrite the events so far."""
_ALONE = "to build on this machine without it: --remote-cache= --remote-executor="
_NO_WORKER = re.compile(r"queued for too long|\bno (?:matching |available )?workers? ", re.IGNORECASE)
_PROPERTY = "--remote_default_exec_properties="
_FULL_DISK = (
    "free some space; Bazel keeps its files below ~/.cache/bazel, the driver below ~/.cache/rules_torch_kernels"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """The errors of failed actions, for the project's author.

    Attributes:
        errors: the errors.
        summary: the failed variants.
        help: the help.
    """

    errors: tuple[Diagnostic, ...] = ()
    summary: str = ""
    help: str = ""


Explain = Callable[[Events, Sequence[str]], Explained]
"""Explains the failures in events and Bazel's errors; shows errors that belong to no action."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """A completed run of Bazel.

    Attributes:
        stdout: its standard output: the answer of a query.
        events: its results.
        failure: its error; None if it succeeded.
    """

    stdout: str
    events: Events
    failure: DriverError | None = None


class Stopped(KeyboardInterrupt):
    """Ctrl-C while Bazel ran.

    Attributes:
        events: the results so far.
    """

    def __init__(self, events: Events) -> None:
        super().__init__()
        self.events = events


def run(  # noqa: PLR0913  (four arguments of every program, and five options)
    bazel: Bazel,
    args: Sequence[str],
    cwd: Path,
    output: Output,
    *,
    env: Mapping[str, str] | None = None,
    title: str = "bazel",
    check: bool = True,
    explain: Explain | None = None,
    planned: float = 0.0,
    watch: Callable[[Events], None] | None = None,
) -> Completed:
    """Run Bazel, show its progress, and show its complete errors if it fails.

    In the driver's workspaces an action sees its inputs, a shell and a C library: see `py_driver.bazel.sandbox`. A
    build is retried if a cache has lost a result, which is then made again. It is retried once if Bazel crashed.

    Args:
        bazel: the Bazel.
        args: the command and its arguments, without startup options.
        cwd: the workspace.
        output: shows progress and errors.
        env: variables besides the curated environment.
        title: the title of the progress.
        check: whether to raise the failure, instead of returning it.
        explain: explains failed actions; without it, their errors are shown as Bazel wrote them.
        planned: the expected duration of the actions in seconds; 0 if unknown.
        watch: is called periodically with the results so far.

    Returns:
        The completed run.

    Raises:
        DriverError: Bazel failed and `check` is set, or it could not be started.
        Stopped: Ctrl-C, after which Bazel has stopped.
    """
    with tempfile.TemporaryDirectory(prefix="driver-") as name, output.task(title) as task:
        events_file, stdout_file = Path(name, "events.json"), Path(name, "stdout")
        settings = [settings_file(cache_root())] if is_hermetic(cwd) else []
        if settings and args[0] == "build" and (base := output_base(bazel, cwd)):
            args = ["build", *toolchains(base), *args[1:]]
        command = _command(bazel, [*(f"--bazelrc={file}" for file in settings), *args[:1], *_OPTIONS])
        command += _LIVE if output.live else _PLAIN
        command += [*([_NO_RETRIES] if args[0] == "build" else []), f"--build_event_json_file={events_file}", *args[1:]]
        workers = _workers(args) if any(arg.startswith("--remote_executor=") for arg in args) else ""
        environment = curated(extra=env)
        events, tried = Events(), dict.fromkeys(_RETRIES, 0)
        while True:
            console = Console(output, task, planned, workers)
            lines = _Lines(console, events_file, watch)
            try:
                exit_code = _called(bazel, command, cwd, environment, stdout_file, lines, output)
            except KeyboardInterrupt:
                raise Stopped(merged(events, read_events(events_file))) from None
            events = merged(events, read_events(events_file))
            retries, notice = _RETRIES.get(exit_code, (0, ""))
            if tried.get(exit_code, 0) == retries:
                break
            keep_log(args, sum(tried.values()))
            tried[exit_code] += 1
            output.say(notice)
        for note in console.settings.notes([cwd.resolve() / ".bazelrc", bazel.path.with_name("bazelrc"), *settings]):
            output.say(printable(note))
        text = stdout_file.read_text(encoding="utf-8", errors="replace")
    failure = None if exit_code == _OK else _failure(exit_code, console, events, output, explain)
    if failure is not None and check:
        raise failure
    return Completed(stdout=text, events=events, failure=failure)


def _called(  # noqa: PLR0913  (the call, its directory, and its reader)
    bazel: Bazel,
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    stdout_file: Path,
    lines: _Lines,
    output: Output,
) -> int:
    """Call Bazel, read its output until it ends, and return its exit code."""
    with stdout_file.open("wb") as stdout, held() as let_signals_come:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except OSError as problem:
            raise error(Code.NO_BAZEL, f"{bazel.path} cannot be run: {problem.strerror}") from problem
        return _follow(process, lines, output, let_signals_come)


def exec_bazel(bazel: Bazel, args: Sequence[str], cwd: Path) -> NoReturn:
    """Replace this process by Bazel, with the same input and output.

    Args:
        bazel: the Bazel.
        args: everything that follows the program's name.
        cwd: a directory of the workspace.
    """
    command = _command(bazel, args)
    os.chdir(cwd)
    try:
        os.execve(command[0], command, curated())  # noqa: S606  (no shell is wanted)
    except OSError as problem:
        raise error(Code.NO_BAZEL, f"{bazel.path} cannot be run: {problem.strerror}") from problem


def output_base(bazel: Bazel, cwd: Path) -> Path | None:
    """Bazel's output base of a workspace; None if it is unknown.

    It is found without calling Bazel, which takes a tenth of a second, if Bazel has already recorded the workspace
    there; the layout is that of https://bazel.build/remote/output-directories.

    Args:
        bazel: the Bazel.
        cwd: the workspace.
    """
    told = dict(option.split("=", 1) for option in bazel.startup if "=" in option)
    if "--output_base" in told:
        return Path(told["--output_base"])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = told.get("--output_user_root") or Path(cache, "bazel", f"_bazel_{os.environ.get('USER', 'root')}")
    usual = Path(root, hashlib.md5(os.fsencode(cwd.resolve()), usedforsecurity=False).hexdigest())
    with suppress(OSError):
        if (usual / "DO_NOT_BUILD_HERE").read_bytes() == os.fsencode(cwd.resolve()):
            return usual
    # If Bazel cannot answer, it cannot build either, and the build reports it.
    with suppress(OSError, subprocess.CalledProcessError):
        command = _command(bazel, ["info", "output_base"])
        asked = subprocess.run(command, cwd=cwd, env=curated(), check=True, capture_output=True, text=True)
        if (base := Path(asked.stdout.strip())).is_absolute():
            return base
    return None


def _command(bazel: Bazel, args: Sequence[str]) -> list[str]:
    return [str(bazel.path), *bazel.startup, *args]


def _follow(
    process: subprocess.Popen[bytes], lines: _Lines, output: Output, let_signals_come: Callable[[], None]
) -> int:
    """Read Bazel's output until it ends; pass Ctrl-C on: SIGINT the first time, then SIGTERM, then SIGKILL.

    If this process ignores SIGINT, as in the background of a script, Bazel has inherited that, and gets none. Bazelisk
    relies on the terminal, which sends SIGINT to the process group.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signals = [*([] if ignored else [signal.SIGINT]), signal.SIGTERM, signal.SIGKILL]
    interrupted = False
    with process:
        while True:
            try:
                let_signals_come()
                lines.read(process)
                exit_code = process.wait()
            except KeyboardInterrupt:
                interrupted = True
                if process.poll() is None:
                    os.killpg(process.pid, signals.pop(0) if len(signals) > 1 else signals[0])
                output.say("Stopping Bazel ...")
            else:
                if interrupted:
                    raise KeyboardInterrupt
                return exit_code


@dataclass(slots=True)
class _Lines:
    """Reads Bazel's output.

    Attributes:
        console: shows the output.
        events_file: the file of events.
        watch: see `run`.
        last: the time of its last call, in seconds of `time.monotonic`.
    """

    console: Console
    events_file: Path
    watch: Callable[[Events], None] | None
    last: float = field(default_factory=time.monotonic)

    def read(self, process: subprocess.Popen[bytes]) -> None:
        """Read a process's stderr until its end."""
        for line in process.stderr or ():
            self.console.feed(line.decode(errors="replace").rstrip("\r\n"))
            if self.watch is not None and time.monotonic() - self.last > _WATCH_SECONDS:
                self.watch(read_events(self.events_file))
                self.last = time.monotonic()


def _failure(exit_code: int, console: Console, events: Events, output: Output, explain: Explain | None) -> DriverError:
    """The error for an exit code; shows Bazel's errors, unless they contain errors of the driver, which are clearer."""
    own = own_diagnostics(console.errors)
    if own and all(d.code.exit_code is not ExitCode.BUILD for d in own):
        return DriverError(own)
    explained = Explained()
    if explain is not None and exit_code == _BUILD_FAILED and not console.no_space:
        explained = explain(events, console.errors)
    else:
        for block in console.errors:
            output.say(_shortened(block) if exit_code in _REMOTE else block)
    if console.no_space:
        message = "a disk is full: Bazel, or a program it ran, found no space left"
        return error(Code.NO_SPACE, message, help=_FULL_DISK)
    if exit_code < 0:
        return error(Code.SET_UP, f"Bazel was ended by signal {-exit_code}")
    code, message = _FAILURES.get(exit_code, (Code.SET_UP, f"Bazel ended with exit code {exit_code}"))
    if code is Code.BUILD_FAILED and events.failed:
        shown = ", ".join(events.failed[:_LABELS_SHOWN])
        more = len(events.failed) - _LABELS_SHOWN
        message += f": {shown}" + (f" and {more} more" if more > 0 else "")
    message = explained.summary or message
    advice = explained.help
    if exit_code in _REMOTE:
        advice = _ALONE
        if any(_NO_WORKER.search(block) for block in console.errors):
            message = "no worker of the executor accepts an action"
            advice = f"compare the properties of its workers with [remote.exec-properties] (docs/remote.md); {_ALONE}"
    codes = {diagnostic.code for diagnostic in explained.errors}
    rest = [diagnostic for diagnostic in own if diagnostic.code not in codes]
    return DriverError([*explained.errors, Diagnostic(code=code, message=message, help=advice), *rest])


def _shortened(block: str) -> str:
    """An error with its first lines: Bazel writes one for each of thousands of files that a server refuses."""
    lines = block.splitlines()
    more = len(lines) - _LINES_SHOWN
    return "\n".join([*lines[:_LINES_SHOWN], f"  and {more:,} more lines"]) if more > 1 else block


def _workers(args: Sequence[str]) -> str:
    """Why no worker of an executor may take an action."""
    wanted = ", ".join(arg.removeprefix(_PROPERTY) for arg in args if arg.startswith(_PROPERTY))
    return "the executor has no free worker" + (f" and has {wanted}" if wanted else "")
