"""A picture of benchmarks: a bar for each workload, how many times as fast as its reference it is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from py_driver.publishing.timings import FASTER, SAME, verdict

if TYPE_CHECKING:
    from py_driver.authoring.benchmark import Benchmarks

_WIDTH: Final = 900
_LEFT: Final = 240
_RIGHT: Final = 190
_ROW: Final = 30
_TOP: Final = 56
_COLOURS: Final = {FASTER: "#2a7f3f", SAME: "#7a7a7a", "slower": "#b3541e"}


def picture(done: Benchmarks) -> str:
    """The picture, as SVG; the line is the reference.

    Args:
        done: the benchmarks; those without a reference have their time alone.
    """
    rows = [workload for workload in done.workloads if "times" in workload]
    ratios = [verdict(row["times"], row["reference"]) if "reference" in row else None for row in rows]
    scale = (_WIDTH - _LEFT - _RIGHT) / max([1.5, *(ratio[0] for ratio in ratios if ratio)])
    height = _TOP + _ROW * len(rows) + 16
    on = done.machine.get("gpu") if done.machine.get("gpu") != "none" else done.machine.get("cpu")
    title = f"{on}, torch {done.machine.get('pytorchVersion')}: speed against the reference"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="14" role="img" aria-label="{escape(title)}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="16">{escape(title)}</text>',
    ]
    for number, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        y = _TOP + number * _ROW
        lines.append(f'<text x="{_LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(row["workload"])}</text>')
        label = f"{row['times']['median_us']:.1f} us"
        end = float(_LEFT)
        if ratio:
            end = _LEFT + ratio[0] * scale
            lines.append(
                f'<rect x="{_LEFT}" y="{y + 2}" width="{ratio[0] * scale:.1f}" height="{_ROW - 10}" '
                f'fill="{_COLOURS[ratio[1]]}"/>'
            )
            label = f"{ratio[0]:.2f}x, {label}"
        lines.append(f'<text x="{end + 8:.1f}" y="{y + 16}">{label}</text>')
    line = _LEFT + scale
    lines.append(f'<line x1="{line:.1f}" x2="{line:.1f}" y1="{_TOP - 6}" y2="{height - 12}" stroke="#000" />')
    return "\n".join([*lines, "</svg>", ""])
