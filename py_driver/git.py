"""What git says of a project's sources; it is asked only where something is published or compared with that."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from py_driver.collect import BUILD
from py_driver.errors import Code, error
from py_driver.provenance import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_OTHERS = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
"""Variables that would make git look at another repository; its own hooks are run with them."""


def sources(directory: Path, files: Iterable[str]) -> tuple[Sources, str]:
    """The commit of a project, and a file that git does not have so; nothing outside of a repository, or without git.

    Args:
        directory: of the project.
        files: all that it is built from, relative to that.

    Raises:
        DriverError: DIRTY_TREE if there is a repository that git does not look at, e.g. because it is another user's.
    """
    try:
        status = ["status", "--porcelain", "--untracked-files=all", "--", ".", f":(exclude){BUILD}"]
        changed = [line[3:] for line in _git(directory, *status).splitlines()]
        # What git is told to ignore is in no status.
        known = set(_git(directory, "ls-files", "-z", "--", ".").split("\0"))
    except FileNotFoundError:
        return Sources(), ""
    except subprocess.CalledProcessError as problem:
        if not any((parent / ".git").exists() for parent in (directory.resolve(), *directory.resolve().parents)):
            return Sources(), ""
        said = next(iter(problem.stderr.splitlines()), f"exit code {problem.returncode}")
        message = f"git does not say whether {directory} has changes: {said}"
        raise error(Code.DIRTY_TREE, message, help=f"see `git -C {directory} status`") from None
    changed += sorted(set(files) - known)
    try:
        commit = _git(directory, "rev-parse", "--verify", "-q", "HEAD").strip()
    except subprocess.CalledProcessError:
        commit = ""  # a repository without any
    return Sources(commit=commit, dirty=bool(changed)), changed[0] if changed else ""


def _git(directory: Path, *arguments: str) -> str:
    """What git answers."""
    command = ["git", "-C", str(directory), *arguments]
    environ = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, env=environ).stdout
