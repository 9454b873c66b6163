"""Suggestions for misspelt words and paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like a word, small or large letters alike, or None if none is much like it."""
    from difflib import get_close_matches  # noqa: PLC0415  (only messages need it)

    spelt = {name.casefold(): name for name in reversed([*known])}
    near = get_close_matches(word.casefold(), [*reversed(spelt)], n=1)
    return spelt[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?` for the nearest known word, or nothing."""
    near = nearest(word, known)
    return f"did you mean `{near}`?" if near else ""


def near_path(path: Path, root: Path | None = None) -> str:
    """`did you mean ...?` for a path that does not exist, or nothing.

    Each part of the path that does not exist is replaced by the nearest name in its directory.

    Args:
        path: that does not exist.
        root: the directory that the suggested path is relative to; None for a path as it was given.
    """
    missing = []
    while not os.path.lexists(path) and path != path.parent:
        missing.append(path.name)
        path = path.parent
    for name in reversed(missing):
        try:
            names = os.listdir(path)  # noqa: PTH208  (names alone)
        except OSError:
            return ""
        near = name if name in names else nearest(name, sorted(names))
        if near is None:
            return ""
        path /= near
    shown = os.path.relpath(path, root) if root else path
    return f"did you mean `{shown}`?" if missing else ""
