"""A picture of what was measured: how much slower than the best each configuration is on each case. Pure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

from py_driver.tuning.choice import slower
from py_driver.tuning.records import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.tuning.records import Records
    from py_driver.tuning.space import Case, Configuration, Space

_ROWS: Final = 60
"""Up to how many configurations are drawn, the best ones first."""

_HEIGHT: Final = 18
_WIDTH: Final = 110
_NAMES: Final = 260
_WORST: Final = 2.0
"""From where on a field is as light as it gets."""

_NOTHING: Final = "#eeeeee"

_CURVE: Final = 120
"""How high the curve below the table is, in pixels."""


def picture(space: Space, records: Records) -> str:
    """An SVG: a row for each configuration, a column for each case, dark where it is as fast as the best.

    Below stands how near the best one was that was known after each configuration, in the order in which they ran.

    Args:
        space: what was tuned.
        records: what was measured.
    """
    shown = _best_first(space, records)
    table = 60 + _HEIGHT * len(shown)
    width, height = _NAMES + _WIDTH * len(space.cases) + 10, table + _CURVE + 60
    title = f"{space.name} on {records.machine.get('gpu', '')}: times as slow as the best of each case"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]
    parts += [
        f'<text x="{_NAMES + _WIDTH * at + 4}" y="46" font-size="10">{escape(space.shown_case(case))}</text>'
        for at, case in enumerate(space.cases)
    ]
    for row, config in enumerate(shown):
        y = 54 + _HEIGHT * row
        weight = ' font-weight="bold"' if config == space.default else ""
        parts.append(f'<text x="10" y="{y + 13}"{weight}>{escape(space.shown(config))}</text>')
        for at, case in enumerate(space.cases):
            ratio = _ratio(records, config, case)
            x = _NAMES + _WIDTH * at
            parts.append(f'<rect x="{x}" y="{y}" width="{_WIDTH - 2}" height="{_HEIGHT - 2}" fill="{_colour(ratio)}"/>')
            label = (
                f"{ratio:.2f}"
                if ratio
                else records.found[config, case].outcome
                if (config, case) in records.found
                else ""
            )
            ink = "white" if ratio and ratio < 1 + (_WORST - 1) / 2 else "black"
            parts.append(f'<text x="{x + 6}" y="{y + 13}" fill="{ink}">{label}</text>')
    parts += _curve(so_far(space, records), table + 20, width)
    return "\n".join([*parts, "</svg>", ""])


def so_far(space: Space, records: Records) -> list[float]:
    """After each configuration, in the order of the records: how much slower than the best the best known one was.

    It is the geometric mean over the cases on which something was right; infinite until there is something for each.

    Args:
        space: what was tuned.
        records: what was measured.
    """
    cases = [case for case in space.cases if records.correct(case)]
    best = {case: min(record.us for record in records.correct(case).values()) for case in cases}
    known: dict[Case, float] = dict.fromkeys(cases, math.inf)
    found = []
    for config in dict.fromkeys(config for (config, _), record in records.found.items() if record.outcome != EXCLUDED):
        for case in cases:
            record = records.correct(case).get(config)
            known[case] = min(known[case], record.us if record else math.inf)
        found.append(math.exp(sum(math.log(known[case] / best[case]) for case in cases) / len(cases)) if cases else 1.0)
    return found


def _curve(values: Sequence[float], top: int, width: int) -> list[str]:
    """The best so far as a line: to the right the configurations tried, downwards how near it is to the best."""
    drawn = [(at, value) for at, value in enumerate(values, 1) if math.isfinite(value)]
    if not drawn:
        return []
    worst = max(1.01, *(value for _, value in drawn))
    title = "best so far: times as slow as the best, by configurations tried"
    left, right, bottom = 50, width - 20, top + _CURVE

    def point(at: int, value: float) -> str:
        x = left + (right - left) * at / len(values)
        return f"{x:.1f},{bottom - _CURVE * (value - 1) / (worst - 1):.1f}"

    line = " ".join(point(at, value) for at, value in drawn)
    return [
        f'<text x="10" y="{top - 6}" font-size="12">{title}</text>',
        f'<text x="10" y="{top + 10}" font-size="10">{worst:.2f}</text>',
        f'<text x="10" y="{bottom}" font-size="10">1.00</text>',
        f'<text x="{right - 20}" y="{bottom + 16}" font-size="10">{len(values)}</text>',
        f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="#999999"/>',
        f'<polyline points="{line}" fill="none" stroke="#145a8c" stroke-width="2"/>',
    ]


def _best_first(space: Space, records: Records) -> Sequence[Configuration]:
    """The configurations that were right somewhere: those right everywhere first, by their mean."""
    known = {config for config, case in records.found if case in space.cases and _ratio(records, config, case)}

    def order(config: Configuration) -> tuple[int, float, Configuration]:
        own = [case for case in space.cases if _ratio(records, config, case)]
        return -len(own), slower(records, config, own) or 0.0, config

    return sorted(known, key=order)[:_ROWS]


def _ratio(records: Records, config: Configuration, case: Case) -> float | None:
    """How much slower than the best a configuration is on a case; None if it was not measured."""
    found = records.correct(case)
    return found[config].us / min(other.us for other in found.values()) if config in found else None


def _colour(ratio: float | None) -> str:
    """Dark where it is as fast as the best; grey where nothing was measured."""
    if ratio is None:
        return _NOTHING
    light = min(1.0, (ratio - 1) / (_WORST - 1))
    red, green, blue = (round(dark + (255 - dark) * light * 0.85) for dark in (20, 90, 140))
    return f"#{red:02x}{green:02x}{blue:02x}"
