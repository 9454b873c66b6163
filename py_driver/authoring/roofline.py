"""A roofline: the limit of each workload of a benchmark, memory or arithmetic, and its share of it. Pure.

The model is of S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model for
multicore architectures", Communications of the ACM 52 (2009).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.ceilings import COPY, rate_of, share_of
from py_driver.output import printable
from py_driver.reporting.svg import svg, text_width, widest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.authoring.benchmark import Benchmarks

_MARGIN: Final = 16
_LEFT: Final = 2 * _MARGIN + 84  # a number such as 100 GFLOP/s
_TOP: Final = 48
_WIDE: Final = 640
"""The width of the axes, in pixels."""

_HIGH: Final = 360
_LINE: Final = 20
_SIZE: Final = 13
_TITLE: Final = 16
_STYLE: Final = f"text{{font:{_SIZE}px sans-serif}}.title{{font-size:{_TITLE}px}}"
_ROOF: Final = "#7a7a7a"
_POINT: Final = "#2a7f3f"
_ROOM: Final = 4.0
"""The factor by which the axes extend beyond the outermost points."""


@dataclass(frozen=True, slots=True)
class _Axes:
    """Two logarithmic axes, in powers of ten.

    Attributes:
        left: operations per byte at the left end.
        right: operations per byte at the right end.
        bottom: operations per second at the bottom.
        top: operations per second at the top.
    """

    left: float
    right: float
    bottom: float
    top: float

    def place(self, intensity: float, rate: float) -> tuple[float, float]:
        """The position of a point, in pixels; a point outside of the axes moves to their edge."""
        across = (math.log10(intensity) - self.left) / (self.right - self.left)
        up = (math.log10(rate) - self.bottom) / (self.top - self.bottom)
        return _LEFT + _WIDE * min(max(across, 0.0), 1.0), _TOP + _HIGH * (1 - min(max(up, 0.0), 1.0))


def roofline(done: Benchmarks, peaks: Mapping[str, float]) -> str:
    """The picture, as SVG; empty if no workload states both its bytes and its operations.

    Args:
        done: the benchmarks.
        peaks: the peak throughput of the GPU; see `ceilings`.
    """
    copy = peaks.get(COPY)
    points = [
        workload
        for workload in done.workloads
        if "times" in workload and {"bytes", "flops"} <= workload.keys() and peaks.get(str(workload.get("dtype")))
    ]
    if not points or not copy:
        return ""
    types = sorted({str(point["dtype"]) for point in points}, key=lambda name: -peaks[name])
    axes = _axes(points, copy, [peaks[name] for name in types])
    title = f"{done.machine.get('gpu')}, torch {done.machine.get('pytorchVersion')}: roofline"
    labels = [
        f"{number}  {printable(point['workload'])}: {rate_of(point, peaks)}, {share_of(point, peaks)} of the roof"
        for number, point in enumerate(points, 1)
    ]
    roofs = [f"{name}: {peaks[name] / 1e12:.4g} TFLOP/s" for name in types]
    width = max(
        _LEFT + _WIDE + 2 * _MARGIN + widest(roofs, _SIZE),
        2 * _MARGIN + text_width(title, _TITLE),
        2 * _MARGIN + widest(labels, _SIZE),
    )
    height = _TOP + _HIGH + 72 + _LINE * len(labels)
    parts = [
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{_MARGIN}" y="28">{escape(title)}</text>',
        *_grid(axes),
    ]
    _, lowest = axes.place(1.0, 10**axes.bottom)
    before = -math.inf
    for name, roof in zip(types, roofs, strict=True):
        start = 10**axes.left
        corners = [(start, start * copy), (peaks[name] / copy, peaks[name]), (10**axes.right, peaks[name])]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (axes.place(*corner) for corner in corners))
        y = min(max(axes.place(*corners[-1])[1] + 5, before + _LINE), lowest)
        before = y
        parts += [
            f'<polyline points="{line}" fill="none" stroke="{_ROOF}" stroke-width="1.5"/>',
            f'<text x="{_LEFT + _WIDE + 8}" y="{y:.1f}">{escape(roof)}</text>',
        ]
    parts += _points(axes, points)
    bottom = _TOP + _HIGH
    parts.append(f'<text x="{_LEFT}" y="{bottom + 38}">operations per byte; the slope is {copy / 1e12:.3g} TB/s</text>')
    for number, label in enumerate(labels):
        parts.append(f'<text x="{_MARGIN}" y="{bottom + 66 + number * _LINE}">{escape(label)}</text>')
    return svg(title, width, height, _STYLE, parts)


def _axes(points: Iterable[Mapping[str, Any]], copy: float, peaks: Sequence[float]) -> _Axes:
    """Axes with room for all points, and for the ridge points of the roof."""
    places = [(point["flops"] / point["bytes"], point["flops"] / point["times"]["median_us"] * 1e6) for point in points]
    across = [intensity for intensity, _ in places] + [peak / copy for peak in peaks]
    return _Axes(
        math.log10(min(across) / _ROOM),
        math.log10(max(across) * _ROOM),
        math.log10(min(*(rate for _, rate in places), min(across) * copy) / _ROOM),
        math.log10(max(*peaks, *(rate for _, rate in places)) * 2),
    )


def _grid(axes: _Axes) -> list[str]:
    """A line and a number for each power of ten, or for as many as fit."""
    parts = []
    bottom = _TOP + _HIGH
    across, up = (range(math.ceil(low), math.floor(high) + 1) for low, high in
                  ((axes.left, axes.right), (axes.bottom, axes.top)))  # fmt: skip
    for power in across[:: math.ceil(len(across) / 8) or 1]:
        x, _ = axes.place(10.0**power, 10**axes.bottom)
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}" stroke="#e5e5e5"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{10.0**power:g}</text>',
        ]
    for power in up[:: math.ceil(len(up) / 12) or 1]:
        _, y = axes.place(10**axes.left, 10.0**power)
        parts += [
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>',
            f'<text x="{_LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{_shown(power)}</text>',
        ]
    return parts


def _shown(power: int) -> str:
    """A power of ten of operations per second."""
    prefixes = {15: "P", 12: "T", 9: "G", 6: "M", 3: "k"}
    least = next((least for least in prefixes if power >= least), 0)
    return f"{10.0 ** (power - least):g} {prefixes.get(least, '')}FLOP/s"


def _points(axes: _Axes, points: Sequence[Mapping[str, Any]]) -> list[str]:
    """A dot for each workload, with its number beside it without overlap."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for number, point in enumerate(points, 1):
        x, y = axes.place(point["flops"] / point["bytes"], point["flops"] / point["times"]["median_us"] * 1e6)
        beside = y + 5
        while any(abs(x - other) < 3 * _SIZE and abs(beside - line) < _SIZE for other, line in taken):
            beside += _SIZE
        beside = min(beside, _TOP + _HIGH)
        taken.append((x, beside))
        parts += [
            f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" rx="4" fill="{_POINT}"/>',
            f'<text x="{x + 8:.1f}" y="{beside:.1f}">{number}</text>',
        ]
    return parts
