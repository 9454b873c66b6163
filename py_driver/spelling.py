"""Suggestions for misspelt words."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like a word, or None if none is much like it."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?` for the nearest known word, or nothing."""
    near = nearest(word, known)
    return f"did you mean `{near}`?" if near else ""
