"""What git says of a project's sources; it is asked only where something is published or compared with that."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from py_driver.collect import BUILD
from py_driver.provenance import Sources

if TYPE_CHECKING:
    from pathlib import Path


def sources(directory: Path) -> tuple[Sources, str]:
    """The commit of a project, and a file that git does not have so; nothing outside of a repository, or without git.

    Args:
        directory: of the project.
    """
    changed = _git(directory, "status", "--porcelain", "--", ".", f":(exclude){BUILD}").splitlines()
    commit = _git(directory, "rev-parse", "--verify", "-q", "HEAD").strip()
    return Sources(commit=commit, dirty=bool(changed)), changed[0][3:] if changed else ""


def _git(directory: Path, *arguments: str) -> str:
    """What git answers; nothing if it fails or is not there."""
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return ""
    return "" if done.returncode else done.stdout
