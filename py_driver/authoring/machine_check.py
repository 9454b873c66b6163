"""The result of a check of the machine."""

from __future__ import annotations

from typing import Final, NamedTuple

RIGHT: Final = "right"
WRONG: Final = "wrong"
UNKNOWN: Final = "unknown"


class Check(NamedTuple):
    """The result of a check.

    Attributes:
        name: the subject, in one or two words.
        state: RIGHT, WRONG or UNKNOWN.
        found: the finding, in one line.
        advice: what to do about it; possibly empty.
    """

    name: str
    state: str
    found: str
    advice: str = ""
