"""The positions of all keys and values of a TOML text, which tomli does not provide.

The scanner reads text that tomli has accepted, so it checks nothing; it only needs to find the same keys.
A path is a tuple of keys and array indices: `("kernel", "relu", "src", 0)`.
"""

from __future__ import annotations

import re
from bisect import bisect_right

import tomli

from py_driver.errors import Span

KeyPath = tuple[str | int, ...]
"""The keys (str) and array indices (int) that lead to a value."""

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\(?:.|\n)|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


class Source:
    """A text file and positions in it.

    Args:
        file: its path for messages.
        text: the complete text, with line feeds.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, line: int) -> int:
        """The position of the first character of a line; that of the last line for a larger number.

        Args:
            line: its number, from 1.
        """
        return self._starts[min(line, len(self._lines)) - 1]

    def span(self, start: int, end: int) -> Span:
        """The span of the characters from start up to end, cut at the end of the first line."""
        line = bisect_right(self._starts, start) - 1
        first, last = self._starts[line], self._starts[line + 1] - 1
        return Span(
            file=self.file,
            line=line + 1,
            column=start - first + 1,
            length=max(1, min(end, last) - start),
            text=self._lines[line],
        )


class Location:
    """The position of a key and its value; spans are computed on demand, which is rare.

    Args:
        source: the text.
        key: the extent of the key's last part, in characters from the start of the text.
        value: the extent of the value, or of a table's header.
    """

    __slots__ = ("_key", "_source", "_value")

    def __init__(self, source: Source, key: tuple[int, int], value: tuple[int, int]) -> None:
        self._source = source
        self._key = key
        self._value = value

    @property
    def key(self) -> Span:
        """The span of the key's last part; for an element of an array of the element itself."""
        return self._source.span(*self._key)

    @property
    def value(self) -> Span:
        """The span of the value; for a table of its header."""
        return self._source.span(*self._value)


def unquote(raw: str) -> str:
    """The meaning of a key in TOML: without quotes and escapes."""
    if raw[0] not in "\"'":
        return raw
    text = tomli.loads(f"k = {raw}")["k"]
    assert isinstance(text, str)  # noqa: S101  (a quoted key is a string)
    return text


def locate(source: Source) -> dict[KeyPath, Location]:
    """The positions of all keys and values of an accepted TOML text.

    Args:
        source: a text that `tomli.loads` accepts.

    Returns:
        A location for each table, array, element and value, in the order of the text.
    """
    return _Scanner(source).scan()


class _Scanner:
    """A pass over a text; see `locate`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._at = 0
        self._found: dict[KeyPath, Location] = {}
        self._tables: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, Location]:
        """Read statements up to the end of the text."""
        table: KeyPath = ()
        self._skip_blank()
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()
        return self._found

    def _match(self, pattern: re.Pattern[str]) -> tuple[int, int]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise AssertionError(f"the TOML scanner lost its way at character {self._at}")
        self._at = found.end()
        return found.span()

    def _skip_blank(self) -> None:
        self._match(_BLANK)

    def _skip_space(self) -> None:
        while self._text[self._at : self._at + 1] in {" ", "\t"}:
            self._at += 1

    def _key(self) -> list[tuple[str, tuple[int, int]]]:
        """The parts of a dotted key, each with its extent."""
        parts: list[tuple[str, tuple[int, int]]] = []
        self._skip_space()
        while True:
            start, end = self._match(_KEY)
            parts.append((unquote(self._text[start:end]), (start, end)))
            if not (dot := _DOT.match(self._text, self._at)):
                self._skip_space()
                return parts
            self._at = dot.end()

    def _record(self, path: KeyPath, key: tuple[int, int], value: tuple[int, int], *, again: bool = False) -> None:
        if again or path not in self._found:
            self._found[path] = Location(self._source, key, value)

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`; the path of the table that it opens."""
        start = self._at
        double = self._text.startswith("[[", start)
        self._at += 2 if double else 1
        parts = self._key()
        self._at += 2 if double else 1
        path: KeyPath = ()
        for number, (part, extent) in enumerate(parts):
            path = (*path, part)
            last = number == len(parts) - 1
            if last and double:
                self._record(path, extent, (start, self._at))
                self._tables[path] = self._tables.get(path, 0) + 1
                path = (*path, self._tables[path] - 1)
                self._record(path, extent, (start, self._at))
            else:
                self._record(path, extent, (start, self._at), again=last)
                if path in self._tables:
                    path = (*path, self._tables[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        """`a.b = value`."""
        parts = self._key()
        self._at += 1
        self._skip_space()
        path = table
        for part, extent in parts[:-1]:
            path = (*path, part)
            self._record(path, extent, extent)
        part, extent = parts[-1]
        self._value((*path, part), extent)

    def _value(self, path: KeyPath, key: tuple[int, int] | None) -> None:
        """A value of any kind; key is None for the element of an array, whose key is the value itself."""
        start = self._at
        opening = self._text[start]
        # The entry in the dictionary is made first, so that a container precedes its members.
        self._record(path, (start, start + 1), (start, start + 1))
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        elif opening in "\"'":
            self._match(_STRING)
        else:
            _, end = self._match(_SCALAR)
            self._at = start + len(self._text[start:end].rstrip())
        end = self._at
        self._record(path, key or (start, end), (start, end), again=True)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        index = 0
        self._skip_blank()
        while self._text[self._at] != "]":
            self._value((*path, index), None)
            index += 1
            self._skip_comma()
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip_blank()
        while self._text[self._at] != "}":
            self._pair(path)
            self._skip_comma()
        self._at += 1

    def _skip_comma(self) -> None:
        self._skip_blank()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip_blank()
