"""The choice of configurations: the best for each case, its ties, and a smallest set for all cases. Pure."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.tuning.records import Record, Records
    from py_driver.tuning.space import Case, Configuration, Space

WITHIN: Final = 0.02
"""The relative slowdown up to which a configuration counts as good as the best."""

_TIE: Final = 0.01
"""The difference up to which two medians tie although their intervals do not overlap: rounds repeat within 0.6 %
(H200)."""

_EXACT: Final = 5
"""The number of configurations up to which all sets are tried for the smallest one; beyond, the choice is greedy."""

_TRIES: Final = 2_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The best configuration on a case.

    Attributes:
        configuration: the fastest configuration.
        record: its record.
        ties: other configurations that may be as fast, the fastest first.
    """

    configuration: Configuration
    record: Record
    ties: tuple[Configuration, ...]


def best(records: Records, case: Case) -> Best | None:
    """The best configuration on a case; None if nothing was measured."""
    found = sorted(records.correct(case).items(), key=lambda pair: pair[1].us)
    if not found:
        return None
    (first, record), *others = found
    ties = tuple(config for config, other in others if _ties(record, other))
    return Best(configuration=first, record=record, ties=ties)


def _ties(fastest: Record, other: Record) -> bool:
    return other.us <= fastest.us * (1 + _TIE) or other.interval[0] <= fastest.interval[1]


def slower(records: Records, configuration: Configuration, cases: Sequence[Case]) -> float | None:
    """The slowdown of a configuration against the best: the geometric mean over cases; None if one is missing.

    Args:
        records: the measurements.
        configuration: the configuration.
        cases: the cases.
    """
    ratios = []
    for case in cases:
        found = records.correct(case)
        if configuration not in found:
            return None
        ratios.append(found[configuration].us / min(record.us for record in found.values()))
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def cover(space: Space, records: Records, within: float = WITHIN) -> dict[Case, Configuration]:
    """A smallest set of configurations that covers all cases, by case; the default wherever it is good.

    Args:
        space: the tuning space.
        records: the measurements.
        within: the relative slowdown up to which a configuration is good.
    """
    good: dict[Case, dict[Configuration, float]] = {}
    for case in space.cases:
        found = records.correct(case)
        if found:
            fastest = min(record.us for record in found.values())
            good[case] = {config: r.us / fastest for config, r in found.items() if r.us <= fastest * (1 + within)}
    if not good:
        return {}
    chosen = _fewest(space, good)
    return {
        case: min((config for config in chosen if config in fits), key=lambda config: _rank(space, config, fits))
        for case, fits in good.items()
    }


def _rank(space: Space, config: Configuration, fits: Mapping[Configuration, float]) -> tuple[bool, float]:
    """The sort key of good configurations: the default first, then the faster ones."""
    return config != space.default, fits[config]


def _fewest(space: Space, good: Mapping[Case, Mapping[Configuration, float]]) -> tuple[Configuration, ...]:
    """A smallest set of configurations that covers all cases; prefers sets with the default."""
    every = sorted({fit for fits in good.values() for fit in fits})
    for size in range(1, _EXACT + 1):
        if math.comb(len(every), size) > _TRIES:
            break
        sets = [
            combination
            for combination in itertools.combinations(every, size)
            if all(any(config in fits for config in combination) for fits in good.values())
        ]
        if sets:
            return min(sets, key=lambda combination: (space.default not in combination, _cost(combination, good)))
    chosen: list[Configuration] = []
    left = dict(good)
    while left:
        chosen.append(min(every, key=lambda config: (-sum(config in fits for fits in left.values()), config)))
        left = {case: fits for case, fits in left.items() if chosen[-1] not in fits}
    return tuple(chosen)


def _cost(combination: Sequence[Configuration], good: Mapping[Case, Mapping[Configuration, float]]) -> float:
    return sum(min(fits[config] for config in combination if config in fits) for fits in good.values())
