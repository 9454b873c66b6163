"""Turns: what one process can do at a time, or a few can, is done in the order in which they came."""

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
"""How often a process that waits is told anew for whom, if nothing changes."""

_SHOWN: Final = 3
_COMMAND_LENGTH: Final = 80
"""Of whom others wait for: how many are named, and how much of the command of each."""


class Turn(NamedTuple):
    """A turn that a process has.

    Attributes:
        place: which of the places it has, from 0; the lowest that was free.
        running: how many processes had a turn when this one began, itself included.
    """

    place: int
    running: int


class Ticket(NamedTuple):
    """What a process says of itself that has a turn or waits for one.

    Attributes:
        place: which of the places it has; None as long as it waits.
        process: its number.
        command: as it was called.
        since: when it came, or its turn began, in seconds of Unix time.
    """

    place: int | None
    process: int
    command: str
    since: float


def whom(before: Sequence[Ticket], now: float) -> str:
    """Who is before a process that waits, in words: `` `driver build relu` (process 12, for 3 min)``.

    Args:
        before: the tickets of these.
        now: in seconds of Unix time.
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
    """Wait for a turn, and have it as long as this lasts.

    Whoever comes draws a ticket, a file with the next number, and locks it. The system unlocks it when the process
    ends, however that is: a ticket that is not locked is nobody's. The lowest numbers have a turn, as many as there are
    places. To wait for one lock would be simpler, but the system does not promise that locks are given in order.

    Args:
        queue: directory of the tickets; made if it does not exist.
        waiting: told who is before this process: when it begins to wait, whenever that changes, and every minute.
        places: how many may have a turn at once.

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
            told, shown = 0.0, None
            before, found = _look(queue, number, places)
            while found is None:
                now = [(earlier.process, earlier.place) for earlier in before]
                if now != shown or time.monotonic() - told >= _AGAIN_SECONDS:
                    waiting(before)
                    told, shown = time.monotonic(), now
                time.sleep(_POLL_SECONDS)
                before, found = _look(queue, number, places)
            yield found
        finally:
            path.unlink(missing_ok=True)


def is_free(queue: Path, *, places: int = 1) -> bool:
    """Whether a process that comes now would have a turn at once.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the directory cannot be written.
    """
    with _alone(queue):
        return len(_tickets(queue)) < places


@contextmanager
def nobody(queue: Path) -> Iterator[bool]:
    """Keep everybody from a turn as long as this lasts; who comes meanwhile waits.

    Args:
        queue: directory of the tickets; made if it does not exist.

    Yields:
        Whether nobody has a turn or waits for one.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the directory cannot be written.
    """
    with _alone(queue):
        yield not _tickets(queue)


@contextmanager
def _alone(queue: Path) -> Iterator[None]:
    """Be the only one who looks at tickets: a moment."""
    with storage_errors(queue):
        queue.mkdir(parents=True, exist_ok=True)
        with locked(queue / _DOOR):
            yield


def _look(queue: Path, number: int, places: int) -> tuple[list[Ticket], Turn | None]:
    """Who is before a ticket, and its turn if that has come."""
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
    """Write what this process says of itself into its ticket."""
    program = Path(sys.argv[0]).name
    command = shlex.join(["driver" if program == "__main__.py" else program, *sys.argv[1:]])
    ticket = Ticket(place=place, process=os.getpid(), command=command, since=time.time())
    path.write_text(json.dumps(ticket), encoding="utf-8")


def _tickets(queue: Path) -> dict[int, Ticket]:
    """The tickets that somebody holds; the others are removed."""
    found = {}
    for path in queue.iterdir():
        if not path.name.isdecimal():  # the door, or what a network's file system keeps of a file that was removed
            continue
        with suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as ticket:  # its holder may just end
            text = ticket.read()
            if try_to_take(ticket):
                path.unlink(missing_ok=True)
            else:
                found[int(path.name)] = _read(text)
    return found


def _read(text: str) -> Ticket:
    """A ticket; of another version of the driver, as much as can be told."""
    try:
        place, process, command, since = json.loads(text)
        return Ticket(place=place, process=int(process), command=str(command), since=float(since))
    except (ValueError, TypeError):
        place = int(text) if text.isdecimal() else None
        return Ticket(place=place, process=0, command="another driver", since=time.time())
