"""What git says of a project's sources; it is asked only where something is published or compared with that."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from py_driver.collect import BUILD
from py_driver.errors import Code, error
from py_driver.provenance import Sources

if TYPE_CHECKING:
    from pathlib import Path


def sources(directory: Path) -> tuple[Sources, str]:
    """The commit of a project, and a file that git does not have so; nothing outside of a repository, or without git.

    Args:
        directory: of the project.

    Raises:
        DriverError: DIRTY_TREE if there is a repository that git does not look at, e.g. because it is another user's.
    """
    try:
        changed = _git(directory, "status", "--porcelain", "--", ".", f":(exclude){BUILD}").stdout.splitlines()
    except FileNotFoundError:
        return Sources(), ""
    except subprocess.CalledProcessError as problem:
        if not any((parent / ".git").exists() for parent in (directory.resolve(), *directory.resolve().parents)):
            return Sources(), ""
        said = next(iter(problem.stderr.splitlines()), f"exit code {problem.returncode}")
        message = f"git does not say whether {directory} has changes: {said}"
        raise error(Code.DIRTY_TREE, message, help=f"see `git -C {directory} status`") from None
    commit = _git(directory, "rev-parse", "--verify", "-q", "HEAD", check=False).stdout.strip()
    return Sources(commit=commit, dirty=bool(changed)), changed[0][3:] if changed else ""


def _git(directory: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=check)
