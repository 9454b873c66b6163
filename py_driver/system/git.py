"""Runs git with commands that need no hook, filter, pager or remote.

So no program from a repository's configuration runs.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from py_driver.system.environment import bare

if TYPE_CHECKING:
    from pathlib import Path

_COMMAND: Final = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ENVIRONMENT: Final = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone fetches missing objects when they are read
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def ask(directory: Path, *arguments: str) -> bytes:
    """The output of git.

    Args:
        directory: the directory to run it in.
        arguments: the arguments.

    Raises:
        FileNotFoundError: git is missing.
        subprocess.CalledProcessError: git failed.
    """
    command = [*_COMMAND, "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, check=True, env=bare(_ENVIRONMENT)).stdout


def names(answer: bytes) -> list[str]:
    """The paths in a zero-terminated list."""
    return [os.fsdecode(name) for name in answer.split(b"\0") if name]


def said(problem: subprocess.CalledProcessError) -> str:
    """The error message of git, in one line."""
    text = problem.stderr.decode(errors="replace").strip()
    return next(iter(text.splitlines()), f"exit code {problem.returncode}")
