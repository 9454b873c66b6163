# ruff: noqa: INP001  (a program of its own)
"""Writes the tables of docs/performance.md from bench/results.json: python bench/page.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "bench" / "results.json"
BEGIN, END = "<!-- tables: written by bench/page.py -->", "<!-- end of the tables -->"
_TITLES = {
    "norm": "norm: ten files without torch headers, 90 kernels",
    "light": "light: one small kernel without torch headers",
    "light_torch": "light_torch: the same kernel, in a file that includes torch/all.h",
}


def _table(rows: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """One kernel's table: CPU seconds, wall seconds and steps of each column."""
    columns = list(rows)
    lines = ["| " + " | ".join(["", *columns, "best peer / split"]) + " |", "|---" + "|---:" * (len(columns) + 1) + "|"]
    for name in rows[columns[0]]:
        cells = [rows[column][name] for column in columns]
        peers = [rows[column][name]["cpu"] for column in columns if not column.startswith("ours")]
        split = rows["ours, split"][name]["cpu"]
        ratio = f"{min(peers) / split:.1f}" if peers and split else "-"
        shown = [f"{one['cpu']:.1f} ({one['wall']:.1f}; {one['steps']})" for one in cells]
        lines.append("| " + " | ".join([name, *shown, ratio]) + " |")
    return lines


def tables(results: dict[str, Any]) -> str:
    """The part of the page between the two marks."""
    where = results["machine"]
    cells = ", ".join(f"`{cell}`" for cell in results["cells"][:-1])
    lines = [
        BEGIN,
        "",
        f"Measured on {where['date']}: {where['cores']} cores of {where['processor']}, {where['memory-gib']} GiB, "
        f"{where['system']}. Cells: {cells}; the further torch version is `{results['cells'][-1]}`. Each entry: CPU "
        "seconds (wall seconds; compile steps that ran).",
    ]
    for kernel, title in _TITLES.items():
        if kernel in results:
            lines += ["", f"### {title}", "", *_table(results[kernel])]
    return "\n".join([*lines, "", END])


def page(text: str, results: dict[str, Any]) -> str:
    """The page with its tables written anew."""
    before, _, rest = text.partition(BEGIN)
    return before + tables(results) + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))), "utf-8")
