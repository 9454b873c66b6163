"""The targets of a project's symbolic links: they are shipped as files of the project, so they must belong to it.

The author of a change can add a link to any file on the machine that builds the project: git's own configuration, which
contains a token in CI, or a file that git ignores. Files in git can be read by everyone who has the project.
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
        """Why a path does not lead to a file of the project, as the rest of a sentence about it; empty if it does.

        A link must lead to a file in git, in the project's repository. If the project itself is not in git, it must
        lead to a file of the project, and no part of the path may be hidden. If git refuses to read the repository, no
        link is valid. A path without a link is valid unless it is one of git's own files.

        Args:
            path: an existing path, relative to the project's directory.
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
        """Whether no part of a path is a link."""
        lexical = os.path.normpath(f"{self._real}/{path}")
        return os.path.realpath(self.directory / path) == lexical

    def target(self, path: str) -> str:
        """Where a path leads, relative to the project's directory."""
        return os.path.relpath(os.path.realpath(self.directory / path), self._real)

    def check(self, path: str) -> None:
        """Refuse a path that does not lead to a file of the project.

        Args:
            path: see `problem`.

        Raises:
            DriverError: PATH_ESCAPES.
        """
        if problem := self.problem(path):
            raise error(Code.PATH_ESCAPES, f"`{path}` {problem}", help=ADVICE)

    def ignored(self, directory: str) -> frozenset[str]:
        """The files of a directory that git ignores; empty if it ignores the project itself or fails.

        Args:
            directory: relative to the project's, as the returned files.
        """
        if not is_in_repository(self.directory):
            return frozenset()
        what = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", _MANIFEST, directory]
        found = frozenset(self._ask(self._real, "--literal-pathspecs", *what))
        return frozenset() if _MANIFEST in found else found

    def _has_project(self) -> bool:
        """Whether the project is in git: false without a repository, without git, and for a new project."""
        if self._top is None:
            top = self._ask(self._real, "rev-parse", "--show-toplevel")
            self._top = os.path.realpath(top[0].removesuffix("\n")) if top else ""
        return bool(self._top) and f"{self._real}/{_MANIFEST}" in self._known(self._real)

    def _has(self, real: str) -> bool:
        """Whether a file, or a part of a directory, is in git."""
        if os.path.isdir(real):  # noqa: PTH112  (of a string)
            return bool(self._known(real))
        return real in self._known(os.path.dirname(real))  # noqa: PTH120  (as above)

    def _known(self, directory: str) -> frozenset[str]:
        """The files in git below a directory, including submodules; empty if the directory is not in the repository."""
        top = self._top or ""
        if directory not in self._tracked:
            self._tracked[directory] = frozenset()
            if top and contains(top, directory):
                what = ["ls-files", "-z", "--cached", "--recurse-submodules", "--", os.path.relpath(directory, top)]
                found = self._ask(top, "--literal-pathspecs", *what)
                self._tracked[directory] = frozenset(f"{top}/{name}" for name in found)
        return self._tracked[directory]

    def _ask(self, directory: str, *arguments: str) -> list[str]:
        """The paths that git prints; empty without git or a repository, or if git refuses, which is recorded."""
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
    """The root of a directory's repository, found without git, which may refuse to read it; None without one.

    Args:
        directory: a directory, which need not exist.
    """
    real = Path(os.path.realpath(directory))
    above = (real, *real.parents)
    return next((parent for parent in above if os.path.exists(parent / _GIT)), None)  # noqa: PTH110  (Path raises)


def is_in_repository(directory: Path) -> bool:
    """Whether a directory is in a repository, see `repository_of`."""
    return repository_of(directory) is not None
