"""A picture of measurements: the slowdown of each configuration against the best on each case. Pure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

from py_driver.reporting.svg import svg, text_width, widest
from py_driver.tuning.choice import slower
from py_driver.tuning.records import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.tuning.records import Records
    from py_driver.tuning.space import Case, Configuration, Space

_ROWS: Final = 60
"""The maximum number of drawn configurations, the best ones first."""

_MARGIN: Final = 10
_HEIGHT: Final = 18
"""The height of a row of the table, in pixels."""

_LINE: Final = 13
"""The height of a line of the headings."""

_SIZE: Final = 12
_TITLE: Final = 14
_SMALL: Final = 10
_STYLE: Final = (
    f"text{{font:{_SIZE}px sans-serif}}.title{{font-size:{_TITLE}px}}.small{{font-size:{_SMALL}px}}"
    ".default{font-weight:bold}"
)

_WORST: Final = 2.0
"""The slowdown from which a field has the lightest colour."""

_NOTHING: Final = "#eeeeee"

_CURVE: Final = 120
"""The height of the curve below the table, in pixels."""

_SHORTEST: Final = 320
"""The minimum length of its axis."""


def picture(space: Space, records: Records) -> str:
    """The picture, as SVG: a row for each configuration, a column for each case, dark where it is as fast as the best.

    The curve below shows the best result so far after each configuration, in the order of the runs.

    Args:
        space: the tuning space.
        records: the measurements.
    """
    shown = _best_first(space, records)
    fields = {(config, case): _field(records, config, case) for config in shown for case in space.cases}
    headings = [space.shown_case(case).split() for case in space.cases]
    names = "configuration, the best first; bold: the default"
    left = 2 * _MARGIN + max(text_width(names, _SMALL), widest(map(space.shown, shown), _SIZE, bold=True))
    column = _MARGIN + max(
        widest([line for lines in headings for line in lines], _SMALL), widest(["0.00", *fields.values()], _SIZE)
    )
    title = f"{space.name} on {records.machine.get('gpu', '')}: times as slow as the best of each case"
    width = max(
        left + column * len(space.cases) + _MARGIN, 2 * _MARGIN + text_width(title, _TITLE), left + _SHORTEST + _MARGIN
    )
    top = 54 + _LINE * max(map(len, headings))
    table = top + _HEIGHT * len(shown)
    curve = _curve(so_far(space, records), table + 68, width)
    height = table + 40 + (_CURVE + 80 if curve else 0)
    parts = [
        f'<rect width="{width:.0f}" height="{height}" fill="white"/>',
        f'<text class="title" x="{_MARGIN}" y="20">{escape(title)}</text>',
        f'<text class="small" x="{_MARGIN}" y="{top - 6}">{names}</text>',
        f'<text class="small" x="{left:.1f}" y="42">case</text>',
    ]
    parts += [
        f'<text class="small" x="{left + column * at + 4:.1f}" y="{top - 6 - _LINE * above}">{escape(line)}</text>'
        for at, lines in enumerate(headings)
        for above, line in enumerate(reversed(lines))
    ]
    for row, config in enumerate(shown):
        y = top + _HEIGHT * row
        default = ' class="default"' if config == space.default else ""
        parts.append(f'<text x="{_MARGIN}" y="{y + 13}"{default}>{escape(space.shown(config))}</text>')
        for at, case in enumerate(space.cases):
            ratio = _ratio(records, config, case)
            x = left + column * at
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{column - 2:.1f}" height="{_HEIGHT - 2}" fill="{_colour(ratio)}"/>'
            )
            ink = "white" if ratio and ratio < 1 + (_WORST - 1) / 2 else "black"
            parts.append(f'<text x="{x + 4:.1f}" y="{y + 13}" fill="{ink}">{fields[config, case]}</text>')
    return svg(title, width, height, _STYLE, [*parts, *_legend(left, table + 10), *curve])


def _field(records: Records, config: Configuration, case: Case) -> str:
    """The text of the table for a configuration and a case: the slowdown, or why there is no time."""
    if ratio := _ratio(records, config, case):
        return f"{ratio:.2f}"
    return records.found[config, case].outcome if (config, case) in records.found else ""


def _legend(left: float, top: int) -> list[str]:
    """The legend of the colours.

    Args:
        left: the left edge of the first colour.
        top: the top edge of the first colour.
    """
    parts = []
    for ratio, meaning in ((1.0, "1: the best"), (1.5, "1.5"), (_WORST, f"{_WORST:g} or slower"), (None, "no time")):
        parts.append(
            f'<rect x="{left:.1f}" y="{top}" width="10" height="10" fill="{_colour(ratio)}" stroke="#999999"/>'
        )
        parts.append(f'<text class="small" x="{left + 14:.1f}" y="{top + 9}">{meaning}</text>')
        left += 14 + text_width(meaning, _SMALL) + _MARGIN
    return parts


def so_far(space: Space, records: Records) -> list[float]:
    """The slowdown of the best result so far after each configuration, in the order of the records.

    It is the geometric mean over the cases with a correct result; infinite until each of them has one.

    Args:
        space: the tuning space.
        records: the measurements.
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


def _curve(values: Sequence[float], top: int, width: float) -> list[str]:
    """The best result so far as a line: configurations tried on the x axis, slowdown on the y axis.

    Args:
        values: see `so_far`.
        top: the top of the axes.
        width: the width of the picture.
    """
    drawn = [(at, value) for at, value in enumerate(values, 1) if math.isfinite(value)]
    if not drawn:
        return []
    worst = max(1.01, *(value for _, value in drawn))
    highest, lowest = f"{worst:.2f}", "1.00"
    left = _MARGIN + text_width(highest, _SMALL) + 6
    right, bottom = width - 2 * _MARGIN, top + _CURVE

    def point(at: int, value: float) -> str:
        x = left + (right - left) * at / len(values)
        return f"{x:.1f},{bottom - _CURVE * (value - 1) / (worst - 1):.1f}"

    line = " ".join(point(at, value) for at, value in drawn)
    return [
        f'<text x="{_MARGIN}" y="{top - 12}">best so far: times as slow as the best (linear scale)</text>',
        f'<text class="small" x="{left - 4:.1f}" y="{top + 8}" text-anchor="end">{highest}</text>',
        f'<text class="small" x="{left - 4:.1f}" y="{bottom}" text-anchor="end">{lowest}</text>',
        f'<text class="small" x="{left:.1f}" y="{bottom + 14}">configurations tried</text>',
        f'<text class="small" x="{right:.1f}" y="{bottom + 14}" text-anchor="end">{len(values)}</text>',
        f'<line x1="{left:.1f}" y1="{bottom}" x2="{right:.1f}" y2="{bottom}" stroke="#999999"/>',
        f'<line x1="{left:.1f}" y1="{top}" x2="{left:.1f}" y2="{bottom}" stroke="#999999"/>',
        f'<polyline points="{line}" fill="none" stroke="#145a8c" stroke-width="2"/>',
    ]


def _best_first(space: Space, records: Records) -> Sequence[Configuration]:
    """The configurations with a correct result: those that are correct on all cases first, by their mean."""
    known = {config for config, case in records.found if case in space.cases and _ratio(records, config, case)}

    def order(config: Configuration) -> tuple[int, float, Configuration]:
        own = [case for case in space.cases if _ratio(records, config, case)]
        return -len(own), slower(records, config, own) or 0.0, config

    return sorted(known, key=order)[:_ROWS]


def _ratio(records: Records, config: Configuration, case: Case) -> float | None:
    """The slowdown of a configuration on a case; None if it was not measured."""
    found = records.correct(case)
    return found[config].us / min(other.us for other in found.values()) if config in found else None


def _colour(ratio: float | None) -> str:
    """Dark where it is as fast as the best; grey where nothing was measured."""
    if ratio is None:
        return _NOTHING
    light = min(1.0, (ratio - 1) / (_WORST - 1))
    red, green, blue = (round(dark + (255 - dark) * light * 0.85) for dark in (20, 90, 140))
    return f"#{red:02x}{green:02x}{blue:02x}"
