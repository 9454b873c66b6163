"""What every test gets: signals as at a terminal, a limit of time, and a look for processes that it left behind.

A plugin of pytest, named in pyproject.toml. Workers of pytest-xdist have it, too: each looks at what its own tests
started, and the run that started the workers at what is left in the end.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

# With this prefix the driver passes it on to its child processes.
_VARIABLE = "RULES_TORCH_KERNELS_TESTS"
_SECONDS = 600
_LONG_SECONDS = 3600
_LONG = ("e2e", "slow")
_PATIENCE = 5
_SERVER = "bazel("
_PATIENCE_OF_SERVERS = 60
_POLL_SECONDS = 0.05


def pytest_configure() -> None:
    """Handle Ctrl-C here and in children, even in the background of a shell that ignores it; mark started processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ[_VARIABLE] = f"{os.environ.get(_VARIABLE, '')}{_mark()}"  # pytest may be what a test runs


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Limit the time of all tests without a limit of their own; tests of a kernel may run without the plugin for it."""
    if config.pluginmanager.has_plugin("timeout"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                long = any(item.get_closest_marker(name) for name in _LONG)
                item.add_marker(pytest.mark.timeout(_LONG_SECONDS if long else _SECONDS))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer() -> Generator[None, Any, Any]:
    """Also end the processes that a test waits for: before it fails, it leaves the blocks that wait for processes."""
    done = yield
    fail = signal.getsignal(signal.SIGALRM)

    def end_and_fail(number: int, frame: Any) -> None:  # noqa: ANN401  (as signal has it)
        _end(_left())
        if callable(fail):
            fail(number, frame)

    signal.signal(signal.SIGALRM, end_and_fail)
    return done


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test that leaves a process; Bazel's servers may stay until the end of the run."""
    before = _left().keys()
    yield
    if not any(request.node.get_closest_marker(name) for name in _LONG):
        left = _after_a_while(before)
        _end(left)
        assert not left, f"left behind: {list(left.values())}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the servers of Bazel that were started for the tests, and fail a run that leaves another process."""
    if hasattr(session.config, "workerinput"):
        return  # nobody asks a worker how its run ended
    servers = [process for process, command in _left().items() if command.startswith(_SERVER)]
    _end(servers, signal.SIGTERM)
    if left := _after_a_while((), _PATIENCE_OF_SERVERS if servers else _PATIENCE):
        _end(left)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"\nleft behind: {list(left.values())}", red=True)


def _mark() -> str:
    """The mark in the environment of all processes that this run starts, unless they clear it."""
    return f"/{os.getpid()}/"


def _left() -> dict[int, str]:
    """The running processes that tests have started: ids and command lines."""
    mark, found = _mark().encode(), {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            command, environment = _started(process)
            if mark in environment and int(process.name) != os.getpid():
                found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def _started(process: Path) -> tuple[bytes, bytes]:
    """The command line and the environment of a process, which has neither while the kernel replaces its program."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        environment, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
        if command and not environment:
            environment = (process / "environ").read_bytes()  # the new program came between the two, or it has none
        # Neither a kernel's thread nor a process that has ended has a program.
        if command or environment or not (process / "exe").exists() or time.monotonic() > deadline:
            return command, environment
        time.sleep(_POLL_SECONDS)


def _after_a_while(known: Iterable[int], patience: float = _PATIENCE) -> dict[int, str]:
    """Processes other than the known ones, after a time to end."""
    deadline = time.monotonic() + patience
    while True:
        left = {process: command for process, command in _left().items() if process not in known}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_POLL_SECONDS)


def _end(processes: Iterable[int], how: signal.Signals = signal.SIGKILL) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, how)
