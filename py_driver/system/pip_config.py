"""pip's configuration as `pip config list` prints it, and the Pythons to ask for it. Standard library only."""

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
    """The values that apply to a command of pip.

    Args:
        printed: the output of `pip config list`.
        command: e.g. `install`; settings of other commands are ignored.
    """
    values: dict[str, str] = {}
    found = [m for m in map(_SETTING.match, printed.splitlines()) if m]
    for section in ("global", command, ":env:"):  # later sections win, as in pip
        values |= {
            m["key"].replace("_", "-"): value
            for m in found
            if m["section"] == section and (value := _value(m["value"]))  # pip ignores empty values
        }
    return values


def is_on(value: str) -> bool:
    """Whether a value switches a setting on."""
    return value.lower() not in _OFF


def pythons() -> list[str]:
    """The interpreters whose pip the user may have configured: this one, its base, and python3 on PATH.

    The driver's own environment has no pip; its base has the user's.
    """
    own = [sys.executable, os.path.realpath(sys.executable)] if sys.executable else []
    return list(dict.fromkeys(python for python in (*own, shutil.which("python3")) if python))


def pip_of(python: str, interpreter: str = "") -> list[str]:
    """The command for an interpreter's pip.

    Args:
        python: an interpreter with pip.
        interpreter: another interpreter to install for.
    """
    return [python, "-m", "pip", *(("--python", interpreter) if interpreter else ())]


def _value(text: str) -> str:
    """Parse a value that pip printed as a Python literal."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    return str(value)
