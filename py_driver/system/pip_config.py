"""pip's configuration as `pip config list` prints it, and which Pythons to ask for it. Standard library only."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from typing import Final

_SETTING: Final = re.compile(r"^(?P<section>[^.]+)\.(?P<key>[\w-]+)=(?P<value>.*)$")
_OFF: Final = frozenset({"", "0", "false", "no", "off", "n", "f"})


def settings_of(printed: str, command: str) -> dict[str, str]:
    """The values that a command of pip would use.

    Args:
        printed: by `pip config list`.
        command: e.g. `install`; settings of other commands are none of it.
    """
    values: dict[str, str] = {}
    found = [m for m in map(_SETTING.match, printed.splitlines()) if m]
    for section in ("global", command, ":env:"):  # later ones win, as in pip
        values |= {
            m["key"].replace("_", "-"): value
            for m in found
            if m["section"] == section and (value := _value(m["value"]))  # pip passes over what is empty
        }
    return values


def is_on(value: str) -> bool:
    """Whether a value switches on what its name says."""
    return value.lower() not in _OFF


def pythons() -> list[str]:
    """The interpreters whose pip the user may have configured: this one, the one below it, and python3 on PATH.

    The driver's own environment has no pip; what it was made from has the user's.
    """
    own = [sys.executable, os.path.realpath(sys.executable)] if sys.executable else []
    return list(dict.fromkeys(python for python in (*own, shutil.which("python3")) if python))


def pip_of(python: str, interpreter: str = "") -> list[str]:
    """The command that runs an interpreter's pip.

    Args:
        python: that has a pip.
        interpreter: another one, to install into.
    """
    return [python, "-m", "pip", *(("--python", interpreter) if interpreter else ())]


def _value(text: str) -> str:
    """A value as pip prints it: a Python literal."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    return str(value)
