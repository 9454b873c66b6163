"""The files of a project that sources can include, each read once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from py_driver.manifest.locate import Source
from py_driver.manifest.paths import SOURCES, is_plain, path_problem
from py_driver.plan.compile_groups import REGISTRATION
from py_driver.plan.includes import is_opaque, scan
from py_driver.spelling import did_you_mean
from py_driver.system.files import is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.errors import Span
    from py_driver.plan.includes import Include
    from py_driver.plan.links import Links

_TREES = ("torch-ext/", "tests/")
"""Directories of which upstream's tree has the files with an extension of `pyext` (nix-builder/lib/source-set.nix)."""

_SIZE_LIMIT = 4 * 1024 * 1024


class ProjectFiles:
    """The files of a project, each read once.

    Args:
        links: the project's.
        src: the files that a section lists.
        python: the files of its Python package that can be included.
        unusable: listed files that cannot be read, which have another message.
        extensions: the extensions, without a dot, of files below `_TREES` that need not be listed.
    """

    def __init__(
        self, links: Links, src: set[str], python: set[str], unusable: set[str], extensions: Iterable[str]
    ) -> None:
        self._directory = links.directory
        self._links = links
        self._listed = src | python
        self.unusable = unusable
        self._endings = tuple(f".{extension}" for extension in extensions)
        self.others = sorted(name for name in src if not name.endswith(SOURCES))
        self._large: set[str] = set()
        self._complained: dict[tuple[str, int], bool] = {}
        self._texts: dict[str, str] = {}
        self._sources: dict[str, Source] = {}
        self._includes: dict[str, tuple[Include, ...]] = {}
        self._exists: dict[str, bool] = {}

    def has(self, path: str) -> bool:
        """Whether upstream's tree has a file: a section lists it, or it need not be listed."""
        if path in self._listed:
            return True
        if not path.startswith(_TREES) or not path.endswith(self._endings) or path == REGISTRATION:
            return False
        shown = all(is_plain(part) and not part.startswith(".") for part in path.split("/"))
        return shown and self.exists(path) and not self._links.problem(path)

    def text(self, path: str) -> str:
        """The text of a file; empty if it cannot be read or does not belong to the project."""
        if path not in self._texts:
            self._texts[path] = ""
            real = self._directory / path
            with suppress(OSError):
                if path_problem(path) is None and is_file(real):
                    if real.stat().st_size <= _SIZE_LIMIT:
                        self._texts[path] = real.read_text(encoding="utf-8", errors="replace")
                    else:
                        self._large.add(path)
        return self._texts[path]

    def complains(self, path: str, start: int, *, error: bool) -> bool:
        """Whether to report a position of a file: once, and once more if a note becomes an error."""
        earlier = self._complained.get((path, start))
        self._complained[path, start] = error or bool(earlier)
        return earlier is None or (error and not earlier)

    def is_opaque(self, path: str) -> bool:
        """Whether the includes of a file cannot be determined."""
        return is_opaque(self.text(path)) or path in self._large

    def includes(self, path: str) -> tuple[Include, ...]:
        """The includes of a file."""
        if path not in self._includes:
            self._includes[path] = scan(self.text(path))
        return self._includes[path]

    def behind(self, path: str) -> str:
        """The file of the project to which a link leads; empty if no part of the path is a link."""
        return "" if self._links.is_plain(path) else self._links.target(path)

    def exists(self, path: str) -> bool:
        """Whether the project has a regular file at a path."""
        if path not in self._exists:
            self._exists[path] = path_problem(path) is None and is_file(self._directory / path)
        return self._exists[path]

    def has_folder(self, path: str) -> bool:
        """Whether the project has a directory at a path."""
        return path_problem(path) is None and is_directory(self._directory / path)

    def suggestion(self, path: str) -> str:
        """`did you mean ...?` for a missing path, or an empty text."""
        return did_you_mean(path, sorted(self._listed))

    def span(self, path: str, include: Include) -> Span:
        """The position of an include in a file."""
        return self.place(path, include.start, include.start + len(include.path))

    def place(self, path: str, start: int, end: int) -> Span:
        """The position of a part of a file."""
        if path not in self._sources:
            self._sources[path] = Source(self.shown(path), self.text(path))
        return self._sources[path].span(start, end)

    def shown(self, path: str) -> str:
        """A path for messages."""
        return str(self._directory / path)
