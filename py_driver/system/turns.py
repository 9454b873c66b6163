"""Turns: work that only one or a few processes may do at a time is done in the order of their arrival."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.system.cache import storage_errors
from py_driver.system.locks import locked, take, try_to_take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DOOR: Final = "door"
_POLL_SECONDS: Final = 0.1
_AGAIN_SECONDS: Final = 60
"""How often a waiting process is notified again if nothing changes."""

_SHOWN: Final = 3
_COMMAND_LENGTH: Final = 80
"""How many of the processes waited for are named, and how much of the command of each."""


class Turn(NamedTuple):
    """The turn of a process.

    Attributes:
        place: its place, from 0; the lowest that was free.
        running: the number of processes with a turn when it began, itself included.
    """

    place: int
    running: int


class Ticket(NamedTuple):
    """The description of a process that has a turn or waits for one.

    Attributes:
        place: its place; None while it waits.
        process: its process id.
        command: its command line.
        since: the time of its arrival, or of the start of its turn, in seconds of Unix time.
    """

    place: int | None
    process: int
    command: str
    since: float


def whom(before: Sequence[Ticket], now: float) -> str:
    """The processes before a waiting process, for people: `` `driver build relu` (process 12, for 3 min)``.

    Args:
        before: their tickets.
        now: the time in seconds of Unix time.
    """
    holders = [ticket for ticket in before if ticket.place is not None] or [*before]
    named = []
    for holder in holders[:_SHOWN]:
        minutes, seconds = divmod(max(0, round(now - holder.since)), 60)
        command = (
            holder.command if len(holder.command) <= _COMMAND_LENGTH else f"{holder.command[: _COMMAND_LENGTH - 3]}..."
        )
        took = f"{minutes} min" if minutes else f"{seconds} s"
        named.append(f"`{command}` (process {holder.process}, for {took})")
    more = len(holders) - _SHOWN
    waiting = len(before) - len(holders)
    names = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return names + (f"; {waiting} {'waits' if waiting == 1 else 'wait'} before this one" if waiting else "")


@contextmanager
def turn(queue: Path, waiting: Callable[[Sequence[Ticket]], None], *, places: int = 1) -> Iterator[Turn]:
    """Wait for a turn, and hold it during the context.

    Each process draws a ticket, a file with the next number, and locks it. The system unlocks it when the process ends,
    however it ends: an unlocked ticket belongs to nobody. The lowest numbers have a turn, as many as there are places.
    Waiting for a single lock would be simpler, but the system does not promise that locks are granted in order.

    Args:
        queue: the directory of the tickets, which is created if it does not exist.
        waiting: called with the tickets before this process: when it begins to wait, whenever they change, and every
            minute.
        places: the number of concurrent turns.

    Raises:
        DriverError: NO_SPACE or PERMISSION if tickets cannot be written.
    """
    with _alone(queue):
        number = max(_tickets(queue), default=0) + 1
        path = queue / str(number)
        ticket = path.open("x", encoding="utf-8")
        take(ticket)
        _write(path, None)
    with ticket:
        try:
            notified, shown = 0.0, None
            before, found = _look(queue, number, places)
            while found is None:
                now = [(earlier.process, earlier.place) for earlier in before]
                if now != shown or time.monotonic() - notified >= _AGAIN_SECONDS:
                    waiting(before)
                    notified, shown = time.monotonic(), now
                time.sleep(_POLL_SECONDS)
                before, found = _look(queue, number, places)
            yield found
        finally:
            path.unlink(missing_ok=True)


def is_free(queue: Path, *, places: int = 1) -> bool:
    """Whether a new process would have a turn at once.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the directory cannot be written.
    """
    with _alone(queue):
        return len(_tickets(queue)) < places


@contextmanager
def nobody(queue: Path) -> Iterator[bool]:
    """Block all turns during the context; new processes wait.

    Args:
        queue: the directory of the tickets, which is created if it does not exist.

    Yields:
        Whether no process has a turn or waits for one.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the directory cannot be written.
    """
    with _alone(queue):
        yield not _tickets(queue)


@contextmanager
def _alone(queue: Path) -> Iterator[None]:
    """Hold exclusive access to the tickets, for a moment."""
    with storage_errors(queue):
        queue.mkdir(parents=True, exist_ok=True)
        with locked(queue / _DOOR):
            yield


def _look(queue: Path, number: int, places: int) -> tuple[list[Ticket], Turn | None]:
    """The tickets before a ticket, and its turn if that has come."""
    with _alone(queue):
        tickets = _tickets(queue)
        before = [ticket for other, ticket in sorted(tickets.items()) if other < number]
        taken = {ticket.place for ticket in tickets.values()} - {None}
        free = [number for number in range(places) if number not in taken]
        if len(before) >= places or not free:
            return before, None
        _write(queue / str(number), free[0])
        return before, Turn(place=free[0], running=len(taken) + 1)


def _write(path: Path, place: int | None) -> None:
    """Write the description of this process into its ticket."""
    program = Path(sys.argv[0]).name
    command = shlex.join(["driver" if program == "__main__.py" else program, *sys.argv[1:]])
    ticket = Ticket(place=place, process=os.getpid(), command=command, since=time.time())
    path.write_text(json.dumps(ticket), encoding="utf-8")


def _tickets(queue: Path) -> dict[int, Ticket]:
    """The tickets that processes hold; the others are removed."""
    found = {}
    for path in queue.iterdir():
        if not path.name.isdecimal():  # the door, or a removed file on a network file system
            continue
        with suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as ticket:  # its holder may just end
            text = ticket.read()
            if try_to_take(ticket):
                path.unlink(missing_ok=True)
            else:
                found[int(path.name)] = _read(text)
    return found


def _read(text: str) -> Ticket:
    """Parse a ticket; for another version of the driver, as far as possible."""
    try:
        place, process, command, since = json.loads(text)
        return Ticket(place=place, process=int(process), command=str(command), since=float(since))
    except (ValueError, TypeError):
        place = int(text) if text.isdecimal() else None
        return Ticket(place=place, process=0, command="another driver", since=time.time())
