"""The driver's data files and templates, and how they are read."""

from __future__ import annotations

from pathlib import Path


def resource(name: str) -> str:
    """The text of a file of this package.

    Args:
        name: of the file, e.g. `codes.toml`.
    """
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
