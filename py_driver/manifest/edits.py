"""Changes to the text of a TOML file that leave everything else as it is: comments, order, blank lines, quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.manifest.locate import KeyPath, Location


class LayoutError(Exception):
    """The text is laid out in a way that these edits cannot work with."""


class Edits:
    """A list of changes to a text, each found by the path of a key; `apply` makes them all at once.

    The keys that are touched stand on lines of their own, below a header or dotted; not in inline tables.

    Args:
        text: with line feeds.
        locations: where its keys and values stand.
    """

    def __init__(self, text: str, locations: Mapping[KeyPath, Location]) -> None:
        self._text = text
        self._locations = locations
        self._changes: list[tuple[int, int, str]] = []

    def has(self, *path: str) -> bool:
        """Whether the text has a key."""
        return path in self._locations

    def raw(self, *path: str) -> str:
        """A value as it is written."""
        start, end = self._location(path).value_extent
        return self._text[start:end]

    def comment(self, *path: str) -> str:
        """The comment behind a value, with the blanks before it; or nothing."""
        _, end = self._location(path).value_extent
        return self._text[end : self._line_end(end) - 1].rstrip() if "#" in self._rest(path) else ""

    def rename(self, new: str, *path: str) -> None:
        """Give a key, or the table of a header, another name."""
        self._changes.append((*self._location(path).key_extent, new))

    def replace(self, value: str, *path: str) -> None:
        """Give a key another value."""
        self._changes.append((*self._location(path).value_extent, value))

    def delete(self, *path: str, keep_comment: bool = True) -> None:
        """Take the line of a key away; a comment behind its value stays, on a line of its own."""
        start, end = self._line(path)
        comment = self.comment(*path).strip() if keep_comment else ""
        self._changes.append((start, end, f"{comment}\n" if comment else ""))

    def insert_after(self, line: str, *path: str) -> None:
        """Add a line such as `edition = 5` below that of a key, in the same table."""
        start, end = self._line(path)
        prefix = self._text[start : self._location(path).key_extent[0]]
        self._insert(end, f"{prefix}{line}\n")

    def insert_first(self, line: str, *path: str) -> None:
        """Add a line above the first key of a table; the comments above that key stay with it."""
        members = [one for one in self._locations if one[:-1] == path and self._is_line(one)]
        if not members:
            start, end = self._location(path).value_extent
            if self._text[start] != "[":
                raise LayoutError(f"[{'.'.join(path)}] has no line to start from")
            self._insert(self._line_end(end), f"{line}\n")
            return
        start, _ = self._line(members[0])
        prefix = self._text[start : self._location(members[0]).key_extent[0]]
        while start and self._text[self._text.rfind("\n", 0, start - 1) + 1 : start].lstrip().startswith("#"):
            start = self._text.rfind("\n", 0, start - 1) + 1
        self._insert(start, f"{prefix}{line}\n")

    def append(self, block: str, *path: str) -> None:
        """Add lines below the last key of a table, its own tables left aside; at the end of the text for no path."""
        members = [one for one in self._locations if path and one[:-1] == path and self._is_line(one)]
        if path and not members:
            raise LayoutError(f"[{'.'.join(path)}] has no line to end at")
        end = max((self._line(one)[1] for one in members), default=len(self._text))
        self._insert(end, block)

    def apply(self) -> str:
        """The text with all changes."""
        text, at = [], 0
        for start, end, new in sorted(self._changes, key=lambda one: one[:2]):
            if start < at:
                raise LayoutError("two changes meet")
            before = self._text[at:start]
            text += [before, "\n" if new and start == end and before and not before.endswith("\n") else "", new]
            at = end
        return "".join((*text, self._text[at:]))

    def _insert(self, at: int, text: str) -> None:
        self._changes.append((at, at, text))

    def _location(self, path: KeyPath) -> Location:
        for depth in range(1, len(path)):
            start, _ = self._locations[path[:depth]].value_extent
            if self._text[start] == "{":
                raise LayoutError(f"`{'.'.join(map(str, path[:depth]))}` is an inline table")
        return self._locations[path]

    def _is_line(self, path: KeyPath) -> bool:
        """Whether a key has a line of its own, rather than a header."""
        start, _ = self._location(path).key_extent
        before = self._text[self._text.rfind("\n", 0, start) + 1 : start]
        return not before.lstrip().startswith("[") and self._locations[path].value_extent[0] > start

    def _line(self, path: KeyPath) -> tuple[int, int]:
        """The extent of the lines of a key and its value."""
        location = self._location(path)
        return self._text.rfind("\n", 0, location.key_extent[0]) + 1, self._line_end(location.value_extent[1])

    def _line_end(self, at: int) -> int:
        found = self._text.find("\n", at)
        return len(self._text) if found < 0 else found + 1

    def _rest(self, path: KeyPath) -> str:
        """What follows a value on its line."""
        _, end = self._location(path).value_extent
        return self._text[end : self._line_end(end)]
