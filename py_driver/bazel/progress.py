"""The progress of Bazel on a terminal: a line for each running action, and a bar. Pure."""

from __future__ import annotations

from typing import NamedTuple

from py_driver.output import Size, cut, printable

_BAR = 20
_SHORTEST_BAR = 5
_MOST_LINES = 8


class Running(NamedTuple):
    """A running action.

    Attributes:
        what: its description.
        seconds: the seconds since its start.
    """

    what: str
    seconds: int


class Progress(NamedTuple):
    """The progress of a build.

    Attributes:
        done: the number of finished actions.
        total: the number of known actions; more may follow.
        running: the running actions, the oldest first.
        left: the estimated seconds until the end; None if unknown.
    """

    done: int
    total: int
    running: tuple[Running, ...] = ()
    left: float | None = None


def seconds_left(planned: float, elapsed: float, done: int, total: int) -> float:
    """The seconds until a build ends, from its estimate, or from its pace if that is slower.

    Args:
        planned: the estimated seconds of the whole build.
        elapsed: the seconds since its first action began.
        done: the number of actions that have ended since then.
        total: the number of actions that had not ended then.
    """
    return max(planned, elapsed) * (1 - done / max(total, 1))


def picture(progress: Progress, size: Size) -> list[str]:
    """The lines that show the progress of a build, cut to the width and at most half of the screen.

    Args:
        progress: the progress.
        size: the size of the terminal.
    """
    most = max(1, min(_MOST_LINES, size.lines // 2 - 2))
    shown = progress.running[:most]
    lines = [_action(running, size.columns) for running in shown]
    if more := len(progress.running) - len(shown):
        lines.append(cut(f"  and {more} more", size.columns))
    return [*lines, _bar(progress, size.columns)]


def _action(running: Running, columns: int) -> str:
    """A line for an action: its name is cut if necessary, its seconds are not."""
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
