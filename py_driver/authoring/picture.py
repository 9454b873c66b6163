"""A picture of benchmarks: a bar with the speedup over the reference for each workload and each peer."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, Final

from py_driver.output import printable
from py_driver.publishing.timings import FASTER, SAME, SLOWER, verdict
from py_driver.reporting.svg import svg, text_width, widest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.authoring.benchmark import Benchmarks

_MARGIN: Final = 16
_BARS: Final = 460
"""The length of the longest bar, in pixels."""

_ROW: Final = 30
_TOP: Final = 74
_SIZE: Final = 14
_TITLE: Final = 16
_AXIS: Final = 12
_STYLE: Final = f"text{{font:{_SIZE}px sans-serif}}.title{{font-size:{_TITLE}px}}.axis{{font-size:{_AXIS}px}}"
_PEER: Final = "#9db4cc"
_COLOURS: Final = {FASTER: "#2a7f3f", SAME: "#7a7a7a", SLOWER: "#b3541e"}


def picture(done: Benchmarks) -> str:
    """The picture, as SVG: as wide as names and labels need, with a scale for the fastest workload.

    Args:
        done: the benchmarks; a workload without a reference has only its time.
    """
    rows = [row for workload in done.workloads if "times" in workload for row in (workload, *_peers(workload))]
    ratios = [verdict(row["times"], row["reference"]) if "reference" in row else None for row in rows]
    largest = max((ratio[0] for ratio in ratios if ratio), default=None)
    on = done.machine.get("gpu") if done.machine.get("gpu") != "none" else done.machine.get("cpu")
    title = f"{on}, torch {done.machine.get('pytorchVersion')}: speed against the reference"
    labels = [
        (f"{ratio[0]:.2f}x, " if ratio else "") + f"{row['times']['median_us']:.1f} us"
        for row, ratio in zip(rows, ratios, strict=True)
    ]
    left = 2 * _MARGIN + widest([row["workload"] for row in rows], _SIZE)
    width = max(left + _BARS + 2 * _MARGIN + widest(labels, _SIZE), 2 * _MARGIN + text_width(title, _TITLE))
    height = _TOP + _ROW * len(rows) + (50 if largest else 8)
    parts = [
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{_MARGIN}" y="28">{escape(title)}</text>',
    ]
    scale = _BARS / max(1.5, largest or 0.0)
    if largest:
        parts += _scale(left, scale, largest, height)
    for number, (row, ratio, label) in enumerate(zip(rows, ratios, labels, strict=True)):
        y = _TOP + number * _ROW
        length = ratio[0] * scale if ratio else 0.0
        parts.append(f'<text x="{left - 10:.1f}" y="{y + 16}" text-anchor="end">{escape(row["workload"])}</text>')
        if ratio:
            parts.append(
                f'<rect x="{left:.1f}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 10}" '
                f'fill="{_PEER if "is_peer" in row else _COLOURS[ratio[1]]}"/>'
            )
        after = left + length + 8
        if ratio and after < left + scale + 8 < after + text_width(label, _SIZE):
            after = left + scale + 8  # else the reference's line crosses the label
        parts.append(f'<text x="{after:.1f}" y="{y + 16}">{label}</text>')
    return svg(title, width, height, _STYLE, parts)


def _peers(workload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The peers of a workload, as workloads of the same reference."""
    for peer in workload.get("peers", ()):
        if "problem" not in peer:
            reference = {"reference": workload["reference"]} if "reference" in workload else {}
            yield {"workload": printable(peer["name"]), "times": peer, "is_peer": True, **reference}


def _scale(left: float, scale: float, largest: float, height: int) -> list[str]:
    """The axis: its lines and numbers, its title, and the line of the reference with its name.

    Args:
        left: the position of 0.
        scale: the pixels of 1.
        largest: the largest ratio.
        height: the height of the picture.
    """
    bottom = height - 44
    step = next(
        step
        for power in range(-1, 99)
        for step in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
        if step * 8 > largest
    )
    parts = []
    for number in range(math.floor(max(1.5, largest) / step) + 1):
        x = left + number * step * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom}" stroke="#d5d5d5"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{number * step:g}</text>')
    reference, name = left + scale, "1 = reference"
    return [
        *parts,
        f'<text class="axis" x="{left:.1f}" y="{bottom + 34}">times as fast as the reference (linear scale)</text>',
        f'<line x1="{reference:.1f}" x2="{reference:.1f}" y1="{_TOP - 6}" y2="{bottom}" stroke="#000000"/>',
        f'<text class="axis" x="{max(reference, _MARGIN + text_width(name, _AXIS) / 2):.1f}" y="{_TOP - 12}" '
        f'text-anchor="middle">{name}</text>',
    ]
