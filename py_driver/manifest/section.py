"""Typed access to a table of build.toml: each getter checks one key, and every error is collected with its place."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, Diagnostic, Span
from py_driver.manifest.model import Located, Note
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.manifest.locate import KeyPath, Location
    from py_driver.manifest.model import Text, Texts, Version

_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){0,7}", re.ASCII)
_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def unsafe_character(text: str) -> str | None:
    """The first control or bidirectional character of a text as `U+202E`, or None.

    Such characters make a file read differently from what it says, and no name, path or flag needs one.
    """
    found = next((c for c in text if unicodedata.category(c) in _UNSAFE), None)
    return None if found is None else f"U+{ord(found):04X}"


def kind(value: object) -> str:
    """What a TOML value is, with its article."""
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


class Findings:
    """What is wrong with a file, and what is worth a note.

    Args:
        locations: where each path of the file stands.
        start: the place for what is wrong with the file as a whole.
    """

    def __init__(self, locations: Mapping[KeyPath, Location], start: Span) -> None:
        self._locations = locations
        self._start = start
        self._diagnostics: list[Diagnostic] = []
        self._notes: list[Note] = []

    def key(self, path: KeyPath) -> Span:
        """The span of a key, or of the nearest table around it that the file has."""
        return self._nearest(path, "key")

    def value(self, path: KeyPath) -> Span:
        """The span of a value, or of the nearest table around it that the file has."""
        return self._nearest(path, "value")

    def _nearest(self, path: KeyPath, part: str) -> Span:
        while path and path not in self._locations:
            path, part = path[:-1], "value"
        if not path:
            return self._start
        location = self._locations[path]
        return location.key if part == "key" else location.value

    def add(self, code: Code, message: str, span: Span, *, label: str = "", advice: str = "") -> None:
        """Collect an error."""
        self._diagnostics.append(Diagnostic(code=code, message=message, span=span, label=label, help=advice))

    def note(self, message: str, span: Span) -> None:
        """Collect a note."""
        self._notes.append(Note(message=message, span=span))

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The errors, in the order of the file."""
        return tuple(sorted(self._diagnostics, key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0)))

    def notes(self) -> tuple[Note, ...]:
        """The notes, in the order of the file."""
        return tuple(sorted(self._notes, key=lambda n: (n.span.line, n.span.column)))


class Section:
    """A table of build.toml.

    A getter answers None, or nothing in it, both where a key is absent and where its value is wrong; in the
    second case, and where `required` is set in the first one too, the error is collected.

    Args:
        findings: where errors go.
        path: where the table stands in the file.
        table: what it holds.
    """

    def __init__(self, findings: Findings, path: KeyPath, table: Mapping[str, Any]) -> None:
        self.findings = findings
        self.path = path
        self._table = table
        self._known: list[str] = []

    @property
    def title(self) -> str:
        """The table as a header names it, e.g. `[kernel.relu]`."""
        return f"[{'.'.join(str(part) for part in self.path)}]"

    @property
    def span(self) -> Span:
        """The span of the table's header."""
        return self.findings.value(self.path)

    def has(self, key: str) -> bool:
        """Whether the file has the key, whatever its value."""
        self._known.append(key)
        return key in self._table

    def is_empty(self, key: str) -> bool:
        """Whether a key has an empty list."""
        return self._table.get(key) == []

    def names(self) -> tuple[str, ...]:
        """All keys of the table, in the order of the file; they count as known."""
        self._known.extend(self._table)
        return tuple(self._table)

    def key_span(self, key: str) -> Span:
        """The span of a key."""
        return self.findings.key((*self.path, key))

    def value_span(self, key: str) -> Span:
        """The span of a key's value."""
        return self.findings.value((*self.path, key))

    def _get(self, key: str, types: type | tuple[type, ...], expected: str, *, required: bool) -> Any:  # noqa: ANN401
        self._known.append(key)
        if key not in self._table:
            if required:
                message = f"{self.title} has no `{key}`" if self.path else f"there is no [{key}] table"
                self.findings.add(Code.MISSING_KEY, message, self.span, advice=f"add `{key}`: {expected}")
            return None
        value = self._table[key]
        if not isinstance(value, types) or (isinstance(value, bool) and types is int):
            where = f"`{key}` in {self.title}" if self.path else f"`{key}`"
            message = f"{where} must be {expected}, not {kind(value)}"
            self.findings.add(Code.WRONG_TYPE, message, self.value_span(key))
            return None
        return value

    def integer(self, key: str, *, required: bool = False) -> int | None:
        """A non-negative integer."""
        value: int | None = self._get(key, int, "a non-negative integer", required=required)
        if value is not None and value < 0:
            self.findings.add(Code.BAD_VALUE, f"`{key}` must not be negative", self.value_span(key))
            return None
        return value

    def boolean(self, key: str) -> bool | None:
        """A boolean."""
        value: bool | None = self._get(key, bool, "true or false", required=False)
        return value

    def text(self, key: str, *, required: bool = False, expected: str = "a string") -> Text | None:
        """A string without control or bidirectional characters."""
        value = self._get(key, str, expected, required=required)
        if value is None or not self._is_clean(value, key, self.value_span(key)):
            return None
        return Located(value=value, span=self.value_span(key))

    def texts(self, key: str, *, required: bool = False, expected: str = "a list of strings") -> Texts | None:
        """A list of strings, none of which is empty or has control or bidirectional characters."""
        values = self._get(key, list, expected, required=required)
        if values is None:
            return None
        found = []
        for index, value in enumerate(values):
            span = self.findings.value((*self.path, key, index))
            if not isinstance(value, str):
                message = f"`{key}` in {self.title} must be {expected}; this is {kind(value)}"
                self.findings.add(Code.WRONG_TYPE, message, span)
            elif not value:
                self.findings.add(Code.BAD_VALUE, f"`{key}` in {self.title} has an empty string", span)
            elif self._is_clean(value, key, span):
                found.append(Located(value=value, span=span))
        return tuple(found)

    def _is_clean(self, text: str, key: str, span: Span) -> bool:
        if (character := unsafe_character(text)) is None:
            return True
        message = f"`{key}` in {self.title} has the character {character}, which is invisible or changes how text reads"
        self.findings.add(Code.BAD_VALUE, message, span)
        return False

    def version(self, key: str) -> Located[Version] | None:
        """A version: a string of integers with dots between, at most eight of them."""
        text = self.text(key, expected='a version in quotes, e.g. "12.8"')
        if text is None:
            return None
        if not _VERSION.fullmatch(text.value):
            message = f"`{key}` in {self.title} must be integers with dots between"
            self.findings.add(Code.BAD_VALUE, message, text.span, label='such as "12.8"')
            return None
        return Located(value=tuple(int(part) for part in text.value.split(".")), span=text.span)

    def section(self, key: str, *, required: bool = False) -> Section | None:
        """A table inside this one."""
        value = self._get(key, dict, "a table", required=required)
        return None if value is None else Section(self.findings, (*self.path, key), value)

    def sections(self, key: str) -> tuple[Section, ...]:
        """A list of tables."""
        values = self._get(key, list, "a list of tables", required=False) or []
        found = []
        for index, value in enumerate(values):
            path = (*self.path, key, index)
            if isinstance(value, dict):
                found.append(Section(self.findings, path, value))
            else:
                message = f"`{key}` in {self.title} must be a list of tables; this is {kind(value)}"
                self.findings.add(Code.WRONG_TYPE, message, self.findings.value(path))
        return tuple(found)

    def finish(self, elsewhere: Mapping[str, str] | None = None) -> None:
        """Report every key that no getter asked for.

        Args:
            elsewhere: keys that are right in another table, and a hint for each.
        """
        for key in self._table:
            if key in self._known:
                continue
            where = f" in {self.title}" if self.path else ""
            label = (elsewhere or {}).get(key) or did_you_mean(key, self._known)
            advice = "" if label else f"known here: {', '.join(sorted(set(self._known)))}"
            self.findings.add(
                Code.UNKNOWN_KEY, f"unknown key `{key}`{where}", self.key_span(key), label=label, advice=advice
            )
