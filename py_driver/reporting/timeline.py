"""The time line of a build's actions, and its critical path. Pure."""

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
"""The largest overlap in seconds of an action and a successor: their times are measured separately."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """An action that ran.

    Attributes:
        source: the path of the compiled file, within the project.
        section: its target.
        mnemonic: the kind of action.
        arch: `sm_80`; None if it is not for a single architecture.
        variant: the variant that it ran for.
        start: seconds since the first action began.
        seconds: its duration.
        lane: a number from 0; concurrent actions have different lanes.
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
        seconds: the time from the start of the first action to the end of the last.
        lanes: the largest number of concurrent actions.
        critical: seconds of the critical path: the longest of all chains in which each action reads an output of the
            one before.
        bars: the actions, in the order of their starts.
    """

    seconds: float
    lanes: int
    critical: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ran:
    """An action that ran, with its times."""

    place: Place
    variant: str
    spawn: Spawn
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """The time of its end."""
        return self.start + self.seconds


def make_timeline(actions: Iterable[tuple[Place, VariantAction]]) -> Timeline | None:
    """The time line of a build.

    Args:
        actions: the actions of all its variants, each with its source.

    Returns:
        None if no action ran, or Bazel reported no times.
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
    """The sort key for actions that began at the same time."""
    return place.source, place.section, place.mnemonic, place.arch or ""


def _lanes(ran: Sequence[_Ran]) -> list[int]:
    """The lane of each action: the first free one."""
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
        # Outputs for another variant are read under another path, with the same content.
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
