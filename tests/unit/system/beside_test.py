"""Work beside the main thread: its result, what it raises, and its program at the end of the block."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from py_driver.errors import Code, DriverError, error
from py_driver.system.beside import Beside, beside, kill_with_children

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
KILLED = -9


def is_running(process: int) -> bool:
    """Return whether a process exists and is no zombie (the state in proc_pid_stat(5))."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_work_goes_on_while_the_block_does_and_its_result_is_awaited() -> None:
    told = threading.Event()

    def work(_: Beside[int]) -> int:
        assert told.wait(60)
        return 7

    with beside(work) as going:
        told.set()  # were the work not beside the block, this line would never be reached
        assert going.result() == 7
        assert going.result() == 7


def test_what_the_work_raises_comes_where_its_result_is_asked_for() -> None:
    def work(_: Beside[int]) -> int:
        raise error(Code.SET_UP, "pip could not install torch")

    with beside(work) as going, pytest.raises(DriverError, match="could not install"):
        going.result()


def test_an_error_in_the_block_kills_the_program_of_the_work_and_is_the_error_that_comes() -> None:
    programs: list[subprocess.Popen[bytes]] = []
    started = threading.Event()

    def work(going: Beside[int]) -> int:
        with subprocess.Popen(SLEEP) as program:
            programs.append(program)
            going.started(program)
            started.set()
        return program.returncode

    begin = time.monotonic()
    with pytest.raises(ValueError, match="build"), beside(work):  # noqa: PT012  (the block waits for the program)
        assert started.wait(60)
        raise ValueError("build")
    assert programs[0].returncode == KILLED
    assert time.monotonic() - begin < 55


def test_a_program_that_starts_after_the_end_of_the_block_is_killed_at_once() -> None:
    ended = threading.Event()
    codes: list[int] = []

    def work(going: Beside[int]) -> int:
        assert ended.wait(60)
        with subprocess.Popen(SLEEP) as program:
            going.started(program)
        codes.append(program.returncode)
        return 0

    going = Beside[int]()
    going.start(work)
    threading.Timer(0.2, ended.set).start()
    going.stop()
    assert codes == [KILLED]


def test_what_a_program_has_started_ends_with_it() -> None:
    command = ["/bin/sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        kill_with_children(program)
        # The pipe ends when nobody holds it any more.
        assert program.stdout.read() == ""
    assert program.returncode == KILLED
    deadline = time.monotonic() + 60
    while is_running(child):  # a killed process closes its files before it becomes a zombie
        assert time.monotonic() < deadline
        time.sleep(0.01)
