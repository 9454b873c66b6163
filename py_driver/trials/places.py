"""Maps positions of compilers' errors to the texts of a candidate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py_driver.errors import Diagnostic, DriverError
    from py_driver.trials.projects import Sources

_KEYS: Final = {"main.cpp": "cpp_sources", "cuda.cu": "cuda_sources"}
"""The argument with the text of a compiled source, by source."""

_COPIED: Final = "sources"
"""The directory with copies of files, see `inline_project.py` of the client."""

_FILES: Final = "files"
"""The directory with the author's further headers."""

_GUTTER: Final = re.compile(r"^( *)(\d+)( \|)")

_HEAD: Final = re.compile(r"\S.*?:\d+(:\d+)?: ")
"""The prefix of a message with a position."""

_WHERE: Final = re.compile(r"^  \((.*)\)$")
"""The line that names the variants of a message."""

_VARIANTS: Final = re.compile(r"in \d+ variants?\b.*")


def errors_of(failure: DriverError, sources: Sources, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The errors of a candidate as values for JSON.

    Args:
        failure: the errors.
        sources: the candidate's sources as they were built.
        arguments: the candidate's arguments.
    """
    places = Places(sources, arguments)
    return [{**places.of(diagnostic), "code": diagnostic.code.number} for diagnostic in failure.diagnostics]


class Places:
    """Positions in the texts of a candidate.

    Args:
        sources: the candidate's sources as they were built.
        arguments: the candidate's arguments.
    """

    def __init__(self, sources: Sources, arguments: Mapping[str, Any]) -> None:
        self._sources = sources
        self._arguments = arguments
        self._names = {path: name for name, path in sources.units.items()}
        self._path = re.compile(r"(?:[\w.+@~-]*/)*([ui][0-9a-f]{20}/[^\s:'\"()]+)(?::(\d+))?")

    def of(self, diagnostic: Diagnostic) -> dict[str, Any]:
        """An error as a value for JSON: `file`, `line` and `column` are None if unknown."""
        span = diagnostic.span
        file, line = self._place(span.file, span.line) if span else ("", 0)
        return {
            "file": file or None,
            "line": line or None,
            "column": (span.column if span else 0) or None,
            "message": self._told(diagnostic.message),
            "text": "\n".join(self._lines(_without_variants(diagnostic.text.splitlines()))) or diagnostic.help or None,
        }

    def _place(self, path: str, line: int) -> tuple[str, int]:
        """A position in the author's texts: `cpp_sources`, and its line there."""
        found = self._path.search(path)
        return self._named(found[1], line) if found else (path, line)

    def _named(self, path: str, line: int) -> tuple[str, int]:
        if path not in self._names:
            inside = path.partition("/")[2]
            return inside.removeprefix(f"{_FILES}/").removeprefix(_COPIED), line
        name = self._names[path]
        if name not in _KEYS:
            return name, line
        key = _KEYS[name]
        value = self._arguments.get(key, "")
        line -= self._sources.lines_before.get(name, 0) if line else 0
        if line < 0 or (line == 0 and self._sources.lines_before.get(name, 0)):
            return key, 0  # the generated lines before the text
        if isinstance(value, str):
            return (key, line) if line <= value.count("\n") + 1 else ("functions", 0)
        for number, text in enumerate(value):
            if line <= (length := text.count("\n") + 1):
                return f"{key}[{number}]", line
            line -= length
        return "functions", 0

    def _told(self, text: str) -> str:
        """A text with the author's positions."""

        def replaced(found: re.Match[str]) -> str:
            file, line = self._named(found[1], int(found[2] or 0))
            return f"{file}:{line}" if found[2] and line else file

        return self._path.sub(replaced, text)

    def _lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines of a compiler, with the author's line numbers."""
        moved = 0
        for line in lines:
            if (found := self._path.search(line)) and found[2]:
                moved = self._named(found[1], int(found[2]))[1] - int(found[2])
                yield self._told(line)
            elif gutter := _GUTTER.match(line):
                number = str(max(int(gutter[2]) + moved, 0) or "")
                yield f"{number.rjust(len(gutter[1] + gutter[2]))}{gutter[3]}{line[gutter.end() :]}"
            else:
                moved = 0 if _HEAD.match(line) else moved
                yield self._told(line)


def _without_variants(lines: Sequence[str]) -> Iterator[str]:
    """Lines of a message, without the candidate's variant."""
    for line in lines:
        if not (found := _WHERE.match(line)):
            yield line
        elif left := [part for part in found[1].split("; ") if not _VARIANTS.match(part)]:
            yield f"  ({'; '.join(left)})"
