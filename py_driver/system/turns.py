"""Turns: what one process can do at a time, or a few can, is done in the order in which they came."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.system.cache import storage_errors
from py_driver.system.locks import locked, take, try_to_take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_DOOR: Final = "door"
_POLL_SECONDS: Final = 0.1


class Turn(NamedTuple):
    """A turn that a process has.

    Attributes:
        place: which of the places it has, from 0; the lowest that was free.
        running: how many processes had a turn when this one began, itself included.
    """

    place: int
    running: int


@contextmanager
def turn(queue: Path, waiting: Callable[[int], None], *, places: int = 1) -> Iterator[Turn]:
    """Wait for a turn, and have it as long as this lasts.

    Whoever comes draws a ticket, a file with the next number, and locks it. The system unlocks it when the process
    ends, however that is: a ticket that is not locked is nobody's. The lowest numbers have a turn, as many as there are
    places. To wait for one lock would be simpler, but the system does not promise that locks are given in order.

    Args:
        queue: directory of the tickets; made if it does not exist.
        waiting: told how many are before this process, when it begins to wait and whenever that changes.
        places: how many may have a turn at once.

    Raises:
        DriverError: NO_SPACE or PERMISSION if tickets cannot be written.
    """
    with _alone(queue):
        number = max(_tickets(queue), default=0) + 1
        path = queue / str(number)
        ticket = path.open("x")
        take(ticket)
    with ticket:
        try:
            said = 0
            before, found = _look(queue, number, places)
            while found is None:
                if before != said:
                    waiting(before)
                    said = before
                time.sleep(_POLL_SECONDS)
                before, found = _look(queue, number, places)
            yield found
        finally:
            path.unlink(missing_ok=True)


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


def _look(queue: Path, number: int, places: int) -> tuple[int, Turn | None]:
    """How many are before a ticket, and its turn if that has come."""
    with _alone(queue):
        tickets = _tickets(queue)
        before = sum(other < number for other in tickets)
        taken = {int(place) for place in tickets.values() if place}
        free = [place for place in range(places) if place not in taken]
        if before >= places or not free:
            return before, None
        (queue / str(number)).write_text(str(free[0]), encoding="ascii")
        return before, Turn(place=free[0], running=len(taken) + 1)


def _tickets(queue: Path) -> dict[int, str]:
    """The tickets that somebody holds, each with the place that its holder has; the others are removed."""
    found = {}
    for path in queue.iterdir():
        if not path.name.isdecimal():  # the door, or what a network's file system keeps of a file that was removed
            continue
        with suppress(FileNotFoundError), path.open("r+", encoding="ascii") as ticket:  # its holder may just end
            place = ticket.read()
            if try_to_take(ticket):
                path.unlink(missing_ok=True)
            else:
                found[int(path.name)] = place
    return found
