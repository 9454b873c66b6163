"""How far Bazel is, as a terminal shows it: a line for each action that runs, and a bar. Pure."""

from __future__ import annotations

from typing import NamedTuple

from py_driver.output import Size, cut, printable

_BAR = 20
_SHORTEST_BAR = 5
_MOST_LINES = 8


class Running(NamedTuple):
    """An action that runs.

    Attributes:
        what: it does.
        seconds: since it began.
    """

    what: str
    seconds: int


class Progress(NamedTuple):
    """How far a build is.

    Attributes:
        done: actions that have ended.
        total: actions that Bazel knows of; more may follow.
        running: those of the others that run, the oldest first.
        left: seconds until the end, as far as anybody knows; None if nobody does.
    """

    done: int
    total: int
    running: tuple[Running, ...] = ()
    left: float | None = None


def seconds_left(planned: float, elapsed: float, done: int, total: int) -> float:
    """The seconds until a build ends, by its plan, or by what it took so far if that is more.

    Args:
        planned: seconds that the plan says for all of it.
        elapsed: seconds since its first action began.
        done: actions that have ended since then.
        total: actions that had not ended then.
    """
    return max(planned, elapsed) * (1 - done / max(total, 1))


def picture(progress: Progress, size: Size) -> list[str]:
    """The lines that show how far a build is: none is wider than it may be, and they take half of the screen at most.

    Args:
        progress: what to show.
        size: of the terminal.
    """
    most = max(1, min(_MOST_LINES, size.lines // 2 - 2))
    shown = progress.running[:most]
    lines = [_action(running, size.columns) for running in shown]
    if more := len(progress.running) - len(shown):
        lines.append(cut(f"  and {more} more", size.columns))
    return [*lines, _bar(progress, size.columns)]


def _action(running: Running, columns: int) -> str:
    """A line for an action: its seconds stay where its name has to be cut."""
    seconds = f"  {_duration(running.seconds)}"
    return cut(f"{cut(f'  {printable(running.what)}', max(columns - len(seconds), 0))}{seconds}", columns)


def _bar(progress: Progress, columns: int) -> str:
    text = f"{progress.done:,} of {progress.total:,} actions"
    if progress.left is not None:
        text += f", about {_duration(progress.left)} left"
    width = min(_BAR, columns - len(text) - len("[] "))
    if width < _SHORTEST_BAR:
        return cut(text, columns)
    filled = width * progress.done // max(progress.total, 1)
    return f"[{'#' * filled}{' ' * (width - filled)}] {text}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
