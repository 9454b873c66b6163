# ruff: noqa: INP001  (a part of a program of its own)
"""Tables in Markdown, and the releases that they are about."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from py_driver.matrix.releases import Releases

ROOT = Path(__file__).resolve().parent.parent


@cache
def releases() -> Releases:
    """The releases of this checkout, read once."""
    return Releases()


def row(*cells: str) -> str:
    """A line of a table.

    Args:
        cells: its texts.
    """
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def heading(*cells: str) -> str:
    """The first two lines of a table.

    Args:
        cells: the names of its columns.
    """
    return row(*cells) + "|" + "---|" * len(cells) + "\n"
