"""When the actions of a build ran, and which of them it had to wait for one after another. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from py_driver.actions.executed import Did
from py_driver.bazel.spawns import without_configuration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from py_driver.actions.executed import Place, VariantAction
    from py_driver.bazel.spawns import Spawn

_CLOCK = 0.01
"""By how many seconds an end may lie after the beginning of what waited for it: they are measured one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """An action that ran.

    Attributes:
        source: path of the file that it compiles, within the project.
        section: the target that it belongs to.
        mnemonic: which action it is.
        arch: `sm_80`; None if it is not for a single architecture.
        variant: for which it ran.
        start: seconds since the first one began.
        seconds: how long it ran.
        lane: a number from 0; actions that ran at the same time have different ones.
        critical: whether it is on the critical path.
    """

    source: str
    section: str
    mnemonic: str
    arch: str | None
    variant: str
    start: float
    seconds: float
    lane: int
    critical: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The actions that ran in a build.

    Attributes:
        seconds: from the beginning of the first one to the end of the last one.
        lanes: how many ran at the same time at most.
        critical: seconds of the critical path: of all chains in which each action reads what the one before made, that
            which takes longest.
        bars: the actions, in the order in which they began.
    """

    seconds: float
    lanes: int
    critical: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ran:
    """An action that ran, and when."""

    place: Place
    variant: str
    spawn: Spawn
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.seconds


def make_timeline(actions: Iterable[tuple[Place, VariantAction]]) -> Timeline | None:
    """The time line of a build.

    Args:
        actions: of all its variants, each with what it compiles.

    Returns:
        None if no action ran, or Bazel said of none when it did.
    """
    ran = sorted(
        (
            _Ran(
                place=place,
                variant=action.variant,
                spawn=action.spawn,
                start=action.spawn.start,
                seconds=action.seconds,
            )
            for place, action in actions
            if action.did is Did.RUN and action.spawn and action.spawn.start is not None
        ),
        key=lambda entry: (entry.start, entry.end, _name(entry.place), entry.variant),
    )
    if not ran:
        return None
    first = ran[0].start
    lanes = _lanes(ran)
    chain = _longest(ran)
    bars = tuple(
        Bar(
            source=entry.place.source,
            section=entry.place.section,
            mnemonic=entry.place.mnemonic,
            arch=entry.place.arch,
            variant=entry.variant,
            start=round(entry.start - first, 3),
            seconds=round(entry.seconds, 3),
            lane=lane,
            critical=at in chain,
        )
        for at, (entry, lane) in enumerate(zip(ran, lanes, strict=True))
    )
    return Timeline(
        seconds=round(max(entry.end for entry in ran) - first, 3),
        lanes=max(lanes) + 1,
        critical=round(sum(ran[at].seconds for at in chain), 3),
        bars=bars,
    )


def _name(place: Place) -> tuple[str, ...]:
    """What sorts actions that began at the same time."""
    return place.source, place.section, place.mnemonic, place.arch or ""


def _lanes(ran: Sequence[_Ran]) -> list[int]:
    """The lane of each action: the first one that is free when it begins."""
    ends: list[float] = []
    found = []
    for entry in ran:
        lane = next((at for at, end in enumerate(ends) if end <= entry.start), len(ends))
        ends[lane : lane + 1] = [entry.end]
        found.append(lane)
    return found


def _longest(ran: Sequence[_Ran]) -> frozenset[int]:
    """The indices of the actions on the critical path."""
    makers: dict[tuple[str, str], list[int]] = {}
    costs: list[float] = []
    before: list[int | None] = []
    for at, entry in enumerate(ran):
        # What was made for another variant is read under a path of its own, with the same content.
        inputs = entry.spawn.call.inputs.items() if entry.spawn.call else ()
        found = {maker for pair in inputs for maker in makers.get(pair, ()) if ran[maker].end <= entry.start + _CLOCK}
        last = max(found, key=lambda maker: costs[maker], default=None)
        before.append(last)
        costs.append(entry.seconds + (costs[last] if last is not None else 0.0))
        for path, digest in entry.spawn.outputs.items():
            makers.setdefault((without_configuration(path), digest), []).append(at)
    chain = []
    action: int | None = max(range(len(ran)), key=lambda index: costs[index])
    while action is not None:
        chain.append(action)
        action = before[action]
    return frozenset(chain)
