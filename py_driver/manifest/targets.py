"""The names of targets in the generated BUILD.bazel."""

from __future__ import annotations

import re
from functools import cache

from py_driver.matrix.backends import BUILT, UNIVERSAL
from py_driver.matrix.configurations import ALL, is_identifier
from py_driver.system.files import sha256

DEVICE_LINK = "device_link"
"""The prefix of the target that links the device code of sections."""

_TAKEN = (
    ALL,
    DEVICE_LINK,
    *(f"{family}_id" for family in (*BUILT, UNIVERSAL)),
    *(f"binding_{family}" for family in BUILT),
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST = 100
_SHOWN = 40
_DIGITS = 12


def binding_target(family: str) -> str:
    """The target of the binding of a backend."""
    return f"binding_{family}"


@cache
def section_target(name: str) -> str:
    """The target of a kernel section: its name, or a derived name if it is no valid label, or taken."""
    plain = _PLAIN.fullmatch(name) and len(name) <= _LONGEST
    return name if plain and name not in _TAKEN and not is_identifier(name) else _other(name, name)


def common_target(names: tuple[str, ...], by: tuple[str, ...]) -> str:
    """The target of sources that several sections list.

    Args:
        names: the targets of the built sections.
        by: the targets of all sections that list them.
    """
    return _other("-and-".join(names), "\n".join((*names, "", *by)))


def _other(shown: str, text: str) -> str:
    """A name that no section can have, since a section's name has no dot."""
    words = "-".join(re.findall(r"[A-Za-z0-9_]+", shown))[:_SHOWN]
    return f"{words or 'section'}.{sha256(text.encode())[:_DIGITS]}"
