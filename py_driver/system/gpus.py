"""The GPUs of this machine, as listed by the programs of their vendors."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from py_driver.errors import Code, error
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROGRAMS = (
    (("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"), r"^\s*([1-9][0-9]?\.[0-9])\s*$"),
    (("rocminfo",), r"^\s*Name:\s+(gfx[0-9a-f]{3,4})\s*$"),
)
"""For each vendor the program that lists GPUs, and the pattern of lines with an architecture."""

_PATIENCE = 60


def native_archs() -> tuple[str, ...]:
    """The architectures of this machine's GPUs as in build.toml, without duplicates, e.g. `9.0`, `gfx942`.

    Raises:
        DriverError: SET_UP if no program lists any.
    """
    found: dict[str, None] = {}
    tried = []
    for command, pattern in _PROGRAMS:
        text, failure = _ask(command)
        found.update(dict.fromkeys(re.findall(pattern, text, re.MULTILINE)))
        tried.append(failure or f"{command[0]} lists none")
    if not found:
        advice = "name the architectures instead, e.g. --archs 9.0"
        raise error(Code.SET_UP, f"no GPU of this machine is found: {'; '.join(tried)}", help=advice)
    return tuple(found)


def _ask(command: Iterable[str]) -> tuple[str, str]:
    """The output of a program, and the error if it has none."""
    name, *arguments = command
    try:
        done = subprocess.run(
            [name, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            env=curated(),
            timeout=_PATIENCE,
            check=False,
        )
    except OSError as problem:
        return "", f"there is no {name} on PATH" if isinstance(problem, FileNotFoundError) else f"{name}: {problem}"
    except subprocess.TimeoutExpired:
        return "", f"{name} did not answer within {_PATIENCE} s"
    return done.stdout, f"{name} failed with exit code {done.returncode}" if done.returncode else ""
