# ruff: noqa: INP001  (a program of its own)
"""Writes tables and plots of docs/performance.md from bench/results.json: python bench/page.py."""

from __future__ import annotations

import json
import math
import sys
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from py_driver.reporting.svg import svg, widest  # noqa: E402  (the checkout is no installed package)

PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "bench" / "results.json"
BEGIN, END = "<!-- tables: written by bench/page.py -->", "<!-- end of the tables -->"
SPLIT = "ours, split"
MISSING = "missing"
_TITLES = {
    "light_torch": "light_torch: one small kernel, in a file that includes torch/all.h",
    "norm_aten": "norm_aten: four files that include ATen/ATen.h, 32 kernels",
    "norm": "norm: ten files without torch headers, 420 kernels",
    "cub": "cub: CUB's sum and radix sort, two files without torch headers",
    "gemm": "gemm: four shapes of a CUTLASS GEMM, two files without torch headers",
    "light": "light: the kernel of light_torch, in a file without torch headers",
}
# What docs/performance.md promises: a kernel, a row, and how many times less CPU than the best peer.
_RATIOS = (
    ("light_torch", "cold matrix", 3),
    ("light_torch", "an architecture more", 20),
    ("light_torch", "a torch version more", 2),
    ("light_torch", "comment in a shared file", 0.7),
    ("norm", "an architecture more", 3),
    ("norm", "cold matrix", 1.8),
    ("norm", "a torch version more", 20),
    ("norm", "critical path of one source", 2),
    ("light", "cold matrix", 0.9),
)
_MOST_WALL = 2

Rows = dict[str, dict[str, Any]]

_COLORS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#7f7f7f")
_SIZE = 12
_STYLE = (
    f"text{{font:{_SIZE}px sans-serif;fill:#24292f}}.row{{font-weight:bold}}line{{stroke:#8886;stroke-width:1}}"
    ".peer{stroke:#24292f;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.peer{stroke:#e6edf3}}"
)
_LEFT, _WIDTH, _BAR, _GAP = 14, 400, 14, 30
_SUMMARY = IMAGES / "performance_summary.svg"
_SUMMED = ("cold matrix", "edit of one kernel", "a torch version more", "an architecture more")
_SPACE = 8
"""Pixels between a bar and its words, and between the names of rows and the scale."""
_LOWEST = 0.1
_MOST_LINES = 12
"""How many lines of a scale have room for their numbers."""


def _entry(columns: dict[str, Rows], column: str, row: str) -> dict[str, Any]:
    """What was measured; empty if nothing was, or if it failed."""
    found = columns.get(column, {}).get(row, {})
    return {} if "error" in found else found


def best_peer(columns: dict[str, Rows], row: str) -> tuple[str, float] | None:
    """The peer column with the least CPU time for a row, and its seconds."""
    found = {
        column: entry["cpu"]
        for column in columns
        if not column.startswith("ours") and (entry := _entry(columns, column, row))
    }
    best = min(found, key=lambda column: found[column], default=None)
    return None if best is None else (best, found[best])


def _against_best(columns: dict[str, Rows], row: str) -> tuple[str, float] | None:
    """The best peer of a row, and its CPU seconds in relation to ours."""
    peer, ours = best_peer(columns, row), _entry(columns, SPLIT, row)
    return (peer[0], peer[1] / ours["cpu"]) if peer and ours.get("cpu") else None


def _verdict(met: bool) -> str:  # noqa: FBT001  (its one argument)
    return "reached" if met else "not reached"


def _ratio(results: dict[str, Any], kernel: str, row: str, bar: float) -> str:
    """The line of a bar that is a ratio to the best peer."""
    what = "fewer seconds" if row == "critical path of one source" else "less CPU"
    name = f"{kernel}, {row}"
    if found := _against_best(results.get(kernel, {}), row):
        said = f"{found[1]:.1f} times {what} than the best peer, {found[0]} (bar: {bar}): "
        return f"- {name}: {said}{_verdict(found[1] >= bar)}"
    return f"- {name}: {MISSING} (bar: {bar} times {what} than the best peer)"


def bars(results: dict[str, Any]) -> list[str]:
    """A line for each bar: the measurement, and whether it reaches the bar."""
    norm = results.get("norm", {})
    lines = [_ratio(results, *bar) for bar in _RATIOS]
    actions = _entry(norm, SPLIT, "another directory").get("actions")
    lines.append(
        f"- norm, another directory: {MISSING} (bar: 0 compile actions)"
        if actions is None
        else f"- norm, another directory: {actions} compile actions (bar: 0): {_verdict(actions == 0)}"
    )
    wall = _entry(norm, SPLIT, "no change").get("wall")
    lines.append(
        f"- norm, no change: {MISSING} (bar: {_MOST_WALL} s)"
        if wall is None
        else f"- norm, no change: {wall:.1f} s (bar: {_MOST_WALL} s): {_verdict(wall <= _MOST_WALL)}"
    )
    return lines


def _rows(columns: dict[str, Rows]) -> list[str]:
    """The names of all rows, in the order in which they were measured."""
    return list(dict.fromkeys(row for rows in columns.values() for row in rows))


def _cell(entry: dict[str, Any] | None) -> str:
    """The text of a table's cell."""
    if entry is None:
        return MISSING
    if "error" in entry:
        return "failed"
    if "same" in entry:
        return "yes" if entry["same"] else "no"
    return f"{entry['cpu']:.1f} ({entry['wall']:.1f}; {entry['actions']})"


def table(columns: dict[str, Rows]) -> list[str]:
    """The table of a kernel: CPU seconds, wall seconds and actions of each column."""
    lines = ["| " + " | ".join(["", *columns, "best peer / split"]) + " |", "|---" + "|---:" * (len(columns) + 1) + "|"]
    for row in _rows(columns):
        compared = (
            None if any("same" in rows.get(row, {}) for rows in columns.values()) else _against_best(columns, row)
        )
        ratio = f"{compared[1]:.1f}" if compared else "-"
        lines.append("| " + " | ".join([row, *(_cell(rows.get(row)) for rows in columns.values()), ratio]) + " |")
    return lines


def _machine(where: dict[str, Any]) -> str:
    programs = ", ".join(f"{name} {version}" for name, version in where["programs"].items())
    return (
        f"Variants: {', '.join(map('`{}`'.format, where['variants']))}. Measured on {where['date']}: {where['cores']} "
        f"cores of {where['processor']}, {where['memory-gib']} GiB, {where['system']}; {programs}."
    )


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    """A text at a position of a picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


_MIDDLE = ' text-anchor="middle"'


def summary(results: dict[str, Any]) -> str:
    """An SVG of the main changes of all kernels: the best peer's CPU seconds in relation to ours."""
    found = {
        kernel: {row: _against_best(results[kernel], row) for row in _SUMMED} for kernel in _TITLES if kernel in results
    }
    ratios = [pair[1] for rows in found.values() for pair in rows.values() if pair]
    low, high = math.floor(math.log2(min([1.0, *ratios]))), math.ceil(math.log2(max([2.0, *ratios])))
    start = _LEFT + widest(_SUMMED, _SIZE) + 2 * _SPACE
    labels = {
        (kernel, row): f"{pair[1]:.1f} {pair[0].removeprefix('ninja + ')}" if pair else MISSING
        for kernel, rows in found.items()
        for row, pair in rows.items()
    }
    width = start + _WIDTH + _SPACE + widest(labels.values(), _SIZE)
    top = 54
    height = top + len(found) * (_GAP + _BAR * len(_SUMMED)) + 48

    def place(power: float) -> float:
        return start + _WIDTH * (power - low) / (high - low)

    middle = place(0)
    parts = [
        _text(_LEFT, 16, "CPU seconds of the best peer, divided by ours", ' class="row"'),
        _text(middle, 36, "1 = peer", ' class="row" text-anchor="middle"'),
    ]
    step = math.ceil((high - low) / _MOST_LINES)
    for power in range(math.ceil(low / step) * step, high + 1, step):
        x = place(power)
        mark = "" if power else ' class="peer"'
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="42" y2="{height - 42}"{mark}/>')
        parts.append(_text(x, height - 28, f"{2.0**power:g}", _MIDDLE))
    axis = "times as many CPU seconds as ours (logarithmic scale)"
    parts.append(_text(start + _WIDTH / 2, height - 8, axis, _MIDDLE))
    y = top
    for kernel, rows in found.items():
        parts.append(_text(_LEFT, y + 8, kernel, ' class="row"'))
        y += _GAP - 8 - 8
        for row, pair in rows.items():
            end = place(math.log2(pair[1])) if pair else middle
            left, right = min(end, middle), max(end, middle)
            color = _COLORS[0] if end >= middle else _COLORS[2]
            parts.append(_text(_LEFT + _SPACE, y + 10, row))
            parts.append(
                f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{_BAR - 3}" fill="{color}"/>'
            )
            parts.append(_text(right + 4, y + 10, labels[kernel, row]))
            y += _BAR
        y += 16
    return svg("The best peer's CPU seconds in relation to ours", width, height, _STYLE, parts)


def plot(kernel: str, columns: dict[str, Rows]) -> str:
    """An SVG of the CPU seconds of each column in each row, on a logarithmic scale."""
    rows = [row for row in _rows(columns) if not any("same" in column.get(row, {}) for column in columns.values())]
    seconds = [entry["cpu"] for column in columns for row in rows if (entry := _entry(columns, column, row))]
    decades = max(1, math.ceil(math.log10(max([1, *seconds]) / _LOWEST)))
    legend = 26 + _BAR * len(columns)
    height = legend + len(rows) * (_GAP + _BAR * len(columns)) + 48
    labels = {
        (row, column): f"{entry['cpu']:.1f} s" if (entry := _entry(columns, column, row)) else _cell(results.get(row))
        for row in rows
        for column, results in columns.items()
    }
    width = max(
        _LEFT + _WIDTH + _SPACE + widest(labels.values(), _SIZE),
        _LEFT + 16 + widest([*rows, *columns], _SIZE, bold=True),
    )

    def length(value: float) -> float:
        return _WIDTH * math.log10(max(value, _LOWEST) / _LOWEST) / decades

    parts = [_text(_LEFT, 16, f"{kernel}: CPU seconds of each change", ' class="row"')]
    for i in range(decades + 1):
        x = _LEFT + _WIDTH * i / decades
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{legend + 6}" y2="{height - 40}"/>')
        parts.append(_text(x, height - 26, f"{_LOWEST * 10**i:g}", _MIDDLE))
    parts.append(_text(_LEFT + _WIDTH / 2, height - 8, "CPU seconds (logarithmic scale; shorter is better)", _MIDDLE))
    y = 26
    for i, column in enumerate(columns):
        parts.append(f'<rect x="{_LEFT}" y="{y + 2}" width="10" height="10" fill="{_COLORS[i % len(_COLORS)]}"/>')
        parts.append(_text(_LEFT + 16, y + 11, column))
        y += _BAR
    for row in rows:
        parts.append(_text(_LEFT + 4, y + 22, row, ' class="row"'))
        y += _GAP
        for i, column in enumerate(columns):
            entry = _entry(columns, column, row)
            wide = length(entry["cpu"]) if entry else 0
            color = _COLORS[i % len(_COLORS)]
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{wide:.1f}" height="{_BAR - 3}" fill="{color}"/>')
            parts.append(_text(_LEFT + wide + 4, y + 10, labels[row, column]))
            y += _BAR
    return svg(f"{kernel}: CPU seconds", width, height, _STYLE, parts)


def tables(results: dict[str, Any]) -> str:
    """The part of the page between the two marks."""
    lines = [
        BEGIN,
        "",
        f"The further torch version is `{results['more']}`. Each entry: CPU seconds (wall seconds; compile actions "
        "that ran). All columns of a kernel ran on one machine, one after the other.",
        "",
        f"![The best peer's CPU seconds in relation to ours, by kernel and change](images/{_SUMMARY.name})",
        "",
        "A bar is the best peer's CPU seconds divided by ours, with the name of that peer, on a logarithmic scale. To "
        "the right of 1 ours takes less.",
        "",
        *bars(results),
    ]
    for kernel, title in _TITLES.items():
        if kernel in results:
            lines += ["", f"### {title}", "", _machine(results["machines"][kernel]), "", *table(results[kernel])]
            lines += ["", f"![CPU seconds of {kernel}](images/performance_{kernel}.svg)"]
    return "\n".join([*lines, "", END])


def page(text: str, results: dict[str, Any]) -> str:
    """The page with updated tables."""
    before, _, rest = text.partition(BEGIN)
    return before + tables(results) + rest.partition(END)[2]


def written() -> dict[Path, str]:
    """The page and its plots, from the results."""
    results = json.loads(RESULTS.read_text("utf-8"))
    plots = {IMAGES / f"performance_{name}.svg": plot(name, results[name]) for name in _TITLES if name in results}
    return {PAGE: page(PAGE.read_text("utf-8"), results), _SUMMARY: summary(results), **plots}


def main() -> None:
    """Write the page and its plots."""
    IMAGES.mkdir(exist_ok=True)
    for path, text in written().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
