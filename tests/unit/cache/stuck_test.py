"""Children of a server that wait for ever, here of a real process with two threads."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from py_driver.cache import server
from py_driver.cache.stuck import waiting_children
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAITS = "lock.acquire()"
_FORKS = """
import os, subprocess, threading, time, warnings
warnings.simplefilter("ignore")
lock = threading.Lock()
held = threading.Event()
threading.Thread(target=lambda: (lock.acquire(), held.set(), time.sleep(60)), daemon=True).start()
held.wait()
sleeper = subprocess.Popen(["sleep", "60"])
child = os.fork()
if child == 0:
    %s
print(child, flush=True)
status = os.waitpid(child, 0)[1]
sleeper.kill()
sleeper.wait()
os._exit(7 if os.WIFSIGNALED(status) else 8)
"""


@pytest.fixture
def forked(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process with two threads that forked, and its child, which does what the parameter says."""
    command = [sys.executable, "-c", _FORKS % request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        yield process, int(process.stdout.readline())
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("forked", [_WAITS], indirect=True)
def test_a_child_that_waits_for_ever_is_ended(
    forked: tuple[subprocess.Popen[bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, child = forked
    end = time.monotonic() + 20
    while child not in waiting_children(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert waiting_children(process.pid).keys() == {child}
    monkeypatch.setattr(server, "_LOOK_SECONDS", 0.5)
    said = io.StringIO()
    assert server.watch(process, Output(io.StringIO(), said, {})) == 7
    assert f"note: process {child} of the server was stuck waiting for a lock and was killed" in said.getvalue()


@pytest.mark.parametrize(
    "forked",
    ["time.sleep(2); os._exit(0)", "held.wait(0) and [sum(range(1000)) for _ in iter(time.time, 0)]"],
    indirect=True,
)
def test_a_child_that_sleeps_or_works_is_left_alone(forked: tuple[subprocess.Popen[bytes], int]) -> None:
    process, child = forked
    for _ in range(10):
        assert child not in waiting_children(process.pid)
        time.sleep(0.05)
