"""Turns: in the order in which processes came, also if some of them are killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError
from py_driver.system import turns
from py_driver.system.locks import take
from py_driver.system.turns import Ticket, Turn, is_free, turn, whom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[3]
_SECONDS = 30

_HOLD = """
import sys
from pathlib import Path
from py_driver.system.turns import turn

queue, log, name, places = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def say(text):
    with log.open("a") as stream:
        stream.write(f"{name} {text}\\n")

with turn(queue, lambda before: say(f"waits for {len(before)}"), places=places) as mine:
    say(f"has {mine.place} of {mine.running}")
    sys.stdin.read()
    say("ends")
"""


class Queue:
    """Processes that want a turn; each has it until it is told to end."""

    def __init__(self, place: Path, places: int) -> None:
        self.directory = place / "queue"
        self._log = place / "log"
        self._log.touch()
        self._places = places
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def come(self, name: str) -> None:
        command = [sys.executable, "-c", _HOLD, str(self.directory), str(self._log), name, str(self._places)]
        self._processes[name] = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
        self.wait_for(f"{name} ")

    def end(self, name: str) -> None:
        self._processes[name].communicate(timeout=_SECONDS)
        assert self._processes[name].returncode == 0

    def kill(self, name: str, sent: signal.Signals) -> None:
        self._processes[name].send_signal(sent)
        self._processes[name].wait(_SECONDS)

    def said(self, name: str = "") -> list[str]:
        return [line for line in self._log.read_text().splitlines() if line.startswith(name)]

    def wait_for(self, start: str) -> None:
        end = time.monotonic() + _SECONDS
        while not self.said(start):
            assert time.monotonic() < end, (start, self.said())
            time.sleep(0.01)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Callable[[int], Queue]]:
    made = []

    def make(places: int) -> Queue:
        made.append(Queue(tmp_path, places))
        return made[-1]

    yield make
    for ticket in made:
        ticket.close()


def test_nobody_overtakes(queue: Callable[[int], Queue]) -> None:
    one = queue(1)
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        one.come(name)
    assert one.said("e") == ["e waits for 4"]
    for name, following in pairwise(names):
        one.end(name)
        one.wait_for(f"{following} has")
    one.end("e")
    assert [line for line in one.said() if "waits" not in line] == [
        line for name in names for line in (f"{name} has 0 of 1", f"{name} ends")
    ]
    assert one.said("d")[0] == "d waits for 3"
    assert [path.name for path in one.directory.iterdir()] == ["door"]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_who_is_killed_blocks_nobody(queue: Callable[[int], Queue], sent: signal.Signals) -> None:
    one = queue(1)
    for name in ("holder", "waiter", "last"):
        one.come(name)
    one.kill("waiter", sent)
    one.wait_for("last waits for 1")
    one.kill("holder", sent)
    one.wait_for("last has 0 of 1")
    one.end("last")
    assert [path.name for path in one.directory.iterdir()] == ["door"]


def test_a_few_at_once(queue: Callable[[int], Queue]) -> None:
    one = queue(2)
    one.come("a")
    one.come("b")
    one.come("c")
    one.come("d")
    assert one.said() == ["a has 0 of 1", "b has 1 of 2", "c waits for 2", "d waits for 3"]
    one.end("b")
    one.wait_for("c has 1 of 2")
    one.end("a")
    one.wait_for("d has 0 of 2")
    one.end("c")
    one.come("e")
    assert one.said("e") == ["e has 1 of 2"]


def test_who_waits_is_told_for_whom(queue: Callable[[int], Queue], monkeypatch: pytest.MonkeyPatch) -> None:
    one = queue(1)
    one.come("a")
    one.come("b")
    told: list[str] = []
    assert not is_free(one.directory)
    assert is_free(one.directory, places=3)

    def waiting(before: Sequence[Ticket]) -> None:
        told.append(whom(before, time.time() + 200))
        if len(told) == 2:  # told again, although nothing has changed
            one.end("a")
            one.wait_for("b has")
            one.end("b")

    monkeypatch.setattr(turns, "_AGAIN_SECONDS", 0.2)
    with turn(one.directory, waiting):
        pass
    holder = told[0]
    assert re.fullmatch(r"`-c .*\.\.\.` \(process \d+, for 3 min\); 1 waits before this one", holder)
    assert told[:2] == [holder, holder]
    assert is_free(one.directory)


def test_words_for_those_who_are_before() -> None:
    holders = [Ticket(number, 10 + number, f"driver build {number}", 100.0) for number in range(4)]
    waits = Ticket(None, 20, "driver build late", 150.0)
    assert whom(holders[:1], 130.0) == "`driver build 0` (process 10, for 30 s)"
    assert whom([*holders, waits, waits], 160.0).endswith("(process 12, for 1 min) and 1 more; 2 wait before this one")
    assert whom([waits], 160.0) == "`driver build late` (process 20, for 10 s)"


def test_a_ticket_of_another_version_holds_its_place(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("0")
    with (tmp_path / "1").open() as ticket:
        take(ticket)
        assert not is_free(tmp_path)
        with turn(tmp_path, print, places=2) as mine:
            assert mine == Turn(place=1, running=2)


def test_a_queue_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DriverError) as caught, turn(tmp_path / "file" / "queue", print):
        pass
    assert caught.value.diagnostics[0].code is Code.PERMISSION


def test_what_fails_inside_is_not_taken_for_the_queue(tmp_path: Path) -> None:
    def fail() -> None:
        with turn(tmp_path, print) as mine:
            assert mine == Turn(place=0, running=1)
            raise NotADirectoryError

    for _ in range(2):
        with pytest.raises(NotADirectoryError):
            fail()
