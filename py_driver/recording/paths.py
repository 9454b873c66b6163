"""The paths of a run in the form of a record: relative to the project, or with the name of their owner in front."""

from __future__ import annotations

import posixpath
import re
import sysconfig
from typing import TYPE_CHECKING, Final

from py_driver.recording import stand_ins

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE: Final = re.compile(r"([A-Za-z0-9_]+)/(?:_?core/)?(.+)")
"""A directory of an installed package; numpy has its headers below `_core` or `core`."""


class Paths:
    """The translation of a run's paths.

    Args:
        base: the directory under which the run finds its own files.
        packages: the directory of build requirements.
        toolkit: the name of the toolkit: `cuda`, `rocm`.
    """

    def __init__(self, base: str, packages: Path, toolkit: str) -> None:
        self._base = base
        self.project = f"{base}/{stand_ins.PROJECT}"
        site = f"{base}/{stand_ins.PYTHON}/{stand_ins.site_packages()}"
        self._roots = [
            (f"{base}/{stand_ins.STAND_IN}/torch", "torch:"),
            (f"{base}/{stand_ins.TOOLKIT}", f"{toolkit}:"),
            (sysconfig.get_paths()["include"], "python:include"),
            (site, ""),
            (str(packages), ""),
        ]

    def relative(self, path: str) -> str:
        """A path relative to the project; other paths with the name of their owner, or unchanged."""
        full = posixpath.normpath(posixpath.join(self.project, path))
        if full == self.project or full.startswith(f"{self.project}/"):
            return posixpath.relpath(full, self.project)
        return self._named(full)

    def in_text(self, text: str) -> str:
        """A flag or another text with its paths translated."""
        if self.project in text:
            text = re.sub(rf"{re.escape(self.project)}(?:/(?=[^/\s])|/?(?![\w.-]))", self._own, text)
        for root, _ in self._roots:
            if root in text:
                text = re.sub(rf"{re.escape(root)}(?:/[^\s:,;]*)?(?![\w.-])", lambda found: self._named(found[0]), text)
        return text

    @staticmethod
    def _own(found: re.Match[str]) -> str:
        """The replacement of the project's path in a text: empty in front of the rest of a path, else `.`."""
        follows = found.string[found.end() : found.end() + 1]
        return "" if found[0].endswith("/") and follows and not follows.isspace() else "."

    def _named(self, path: str) -> str:
        """A path below a stand-in or a package, with the name of that in front."""
        for root, name in self._roots:
            if path != root and not path.startswith(f"{root}/"):
                continue
            rest = path[len(root) + 1 :]
            if name:
                return f"{name}/{rest}".replace(":/", ":").rstrip("/")
            found = _PACKAGE.fullmatch(rest)
            return f"{found[1]}:{found[2]}" if found else path
        return path
