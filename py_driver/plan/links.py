"""Where the links of a project lead: what they lead to is shipped as a file of the project, so it must be one.

Whoever sends a change can send a link to anything that lies where the project is built: git's own configuration, which
has a token in CI, or a file that git ignores. What git has may be read by whoever has the project.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from py_driver.errors import Code, error
from py_driver.system.files import contains

ADVICE: Final = "add to git what it leads to, or put a copy in its place"

_MANIFEST: Final = "build.toml"
_GIT: Final = ".git"


class Links:
    """The links of a project.

    Args:
        directory: the project's.

    Attributes:
        directory: the project's.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._real = os.path.realpath(directory)
        self._top: str | None = None
        self._refusal = ""
        self._tracked: dict[str, frozenset[str]] = {}

    def problem(self, path: str) -> str:
        """Why what a path leads to is no file of the project, as the rest of a sentence about it; empty if it is one.

        A link leads to a file that git has, in the repository of the project. Where git does not have the project
        itself, it leads to a file of the project, and no part of the way there is hidden. Where git refuses to look at
        the repository, no link is right. A path without a link is right unless it is one of git's own files.

        Args:
            path: relative to the project's directory, of something that exists.
        """
        real = os.path.realpath(self.directory / path)
        inside = contains(self._real, real)
        shown = os.path.relpath(real, self._real) if inside else real
        if self.is_plain(path):
            return f"is a file of git's own, {shown}" if _GIT in Path(path).parts else ""
        has_project, has = self._has_project(), self._has(real)
        if self._refusal:
            return f"is a symbolic link, and git cannot report whether it has {shown}: {self._refusal}"
        if has_project:
            if has:
                return ""
            what = f"to {shown}, which git does not have" if inside else f"out of the project, to {shown}"
            return f"is a symbolic link {what}"
        if not inside:
            return f"is a symbolic link out of the project, to {shown}"
        hidden = any(part.startswith(".") for part in Path(shown).parts)
        return f"is a symbolic link to {shown}, which is hidden" if hidden and shown != "." else ""

    def is_plain(self, path: str) -> bool:
        """Whether there is no link on the way to something."""
        lexical = os.path.normpath(f"{self._real}/{path}")
        return os.path.realpath(self.directory / path) == lexical

    def check(self, path: str) -> None:
        """Refuse a path that leads to no file of the project.

        Args:
            path: see `problem`.

        Raises:
            DriverError: PATH_ESCAPES.
        """
        if problem := self.problem(path):
            raise error(Code.PATH_ESCAPES, f"`{path}` {problem}", help=ADVICE)

    def ignored(self, directory: str) -> frozenset[str]:
        """The files of a directory that git ignores; none where it ignores the project itself or does not answer.

        Args:
            directory: relative to the project's, as the files that are returned.
        """
        if not is_in_repository(self.directory):
            return frozenset()
        what = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", _MANIFEST, directory]
        found = frozenset(self._ask(self._real, "--literal-pathspecs", *what))
        return frozenset() if _MANIFEST in found else found

    def _has_project(self) -> bool:
        """Whether git has the project: without a repository, without git, and for a new project it has not."""
        if self._top is None:
            top = self._ask(self._real, "rev-parse", "--show-toplevel")
            self._top = os.path.realpath(top[0].removesuffix("\n")) if top else ""
        return bool(self._top) and f"{self._real}/{_MANIFEST}" in self._known(self._real)

    def _has(self, real: str) -> bool:
        """Whether git has a file, or some of a directory."""
        if os.path.isdir(real):  # noqa: PTH112  (of a string)
            return bool(self._known(real))
        return real in self._known(os.path.dirname(real))  # noqa: PTH120  (as above)

    def _known(self, directory: str) -> frozenset[str]:
        """The files below a directory that git has, submodules included; none if that is not in the repository."""
        top = self._top or ""
        if directory not in self._tracked:
            self._tracked[directory] = frozenset()
            if top and contains(top, directory):
                what = ["ls-files", "-z", "--cached", "--recurse-submodules", "--", os.path.relpath(directory, top)]
                found = self._ask(top, "--literal-pathspecs", *what)
                self._tracked[directory] = frozenset(f"{top}/{name}" for name in found)
        return self._tracked[directory]

    def _ask(self, directory: str, *arguments: str) -> list[str]:
        """The paths that git answers with; none without git or a repository, or if it refuses, which is remembered."""
        from subprocess import CalledProcessError  # noqa: PLC0415  (3 ms, and few projects have links)

        from py_driver.system.git import ask, names, said  # noqa: PLC0415  (loads subprocess)

        try:
            return names(ask(Path(directory), *arguments))
        except FileNotFoundError:
            return []
        except CalledProcessError as problem:
            if is_in_repository(self.directory):
                self._refusal = said(problem)
            return []


def repository_of(directory: Path) -> Path | None:
    """The root of the repository that a directory is in, as files say: git may refuse to look at it; None if in none.

    Args:
        directory: which need not be there.
    """
    real = Path(os.path.realpath(directory))
    return next((parent for parent in (real, *real.parents) if (parent / _GIT).exists()), None)


def is_in_repository(directory: Path) -> bool:
    """Whether a directory is in a repository, see `repository_of`."""
    return repository_of(directory) is not None
