"""Typed access to a table of build.toml: each getter checks one key, and every error is collected with its position."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, Diagnostic, DriverError, Note, Span
from py_driver.manifest.keys import VERSION, Key, Kind, Table
from py_driver.manifest.model import DEPENDS, Located
from py_driver.manifest.tables import TABLES, table
from py_driver.matrix.backends import meant_arch
from py_driver.spelling import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.manifest.locate import KeyPath, Location
    from py_driver.manifest.model import Text, Texts, Version

ERROR_LIMIT = 100
"""The maximum number of collected errors."""

_MESSAGE_LIMIT = 1000
_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def unsafe_character(text: str) -> str | None:
    """The first control or bidirectional character of a text as `U+202E`, or None.

    Such characters make a file look different from its meaning, and no name, path or flag needs one.
    """
    found = next((c for c in text if unicodedata.category(c) in _UNSAFE), None)
    return None if found is None else f"U+{ord(found):04X}"


def kind(value: object) -> str:
    """The type of a TOML value, with its article."""
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


class Findings:
    """The errors and notes of a file.

    Args:
        locations: the position of each path of the file.
        start: the position for errors of the file as a whole.
        reason: why the file has its edition, as the end of a sentence.
        libraries: the dependencies that a section may have besides upstream's.
    """

    def __init__(
        self, locations: Mapping[KeyPath, Location], start: Span, reason: str = "", libraries: Sequence[str] = ()
    ) -> None:
        self._locations = locations
        self._start = start
        self.reason = reason
        self.libraries = libraries
        self._diagnostics: list[Diagnostic] = []
        self._notes: list[Note] = []
        self._paths: dict[Span, list[KeyPath]] = {}

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

    def has(self, path: KeyPath) -> bool:
        """Whether the file has a key, whatever its value."""
        return path in self._locations

    def add(self, code: Code, message: str, span: Span | None, *, label: str = "", advice: str = "") -> None:
        """Collect an error.

        Raises:
            DriverError: the errors so far, if they are too many to be read.
        """
        if len(self._diagnostics) == ERROR_LIMIT:
            more = f"there are more errors; these are the first {ERROR_LIMIT} that were found"
            raise DriverError((*self.diagnostics(), Diagnostic(code=Code.TOML_LIMIT, message=more)))
        if len(message) > _MESSAGE_LIMIT:
            message = f"{message[:_MESSAGE_LIMIT]} ..."
        self._diagnostics.append(Diagnostic(code=code, message=message, span=span, label=label, help=advice))

    def note(self, message: str, span: Span, code: Code | None = None) -> None:
        """Collect a note; with a code it is an error with `driver check --strict`."""
        self._notes.append(Note(message=message, span=span, code=code))

    def is_right(self, span: Span) -> bool:
        """Whether no error was collected for the key or value at a position, nor inside of it."""
        if not self._diagnostics:
            return True
        if not self._paths:
            for path, location in self._locations.items():
                self._paths.setdefault(location.key, []).append(path)
                self._paths.setdefault(location.value, []).append(path)
        roots = self._paths.get(span, ())
        wrong = {diagnostic.span for diagnostic in self._diagnostics if diagnostic.span}
        inside = (path for wrong_span in wrong for path in self._paths.get(wrong_span, ()))
        return span not in wrong and not any(path[: len(root)] == root for path in inside for root in roots)

    @property
    def has_errors(self) -> bool:
        """Whether an error was collected."""
        return bool(self._diagnostics)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The errors: those of build.toml in order, then those of other files."""
        return tuple(sorted(self._diagnostics, key=lambda diagnostic: self._order(diagnostic.span)))

    def notes(self) -> tuple[Note, ...]:
        """The notes, in the same order as the errors."""
        return tuple(sorted(self._notes, key=lambda note: self._order(note.span)))

    def _order(self, span: Span | None) -> tuple[bool, str, int, int]:
        if span is None:
            return False, "", 0, 0
        return span.file != self._start.file, span.file, span.line, span.column


class Section:
    """A table of build.toml, read by its declaration in `keys`.

    A getter returns None, or an empty value, if a key is absent, has an invalid value, or does not exist in the
    edition. Errors are collected, also for a missing required key.

    Args:
        findings: gets the errors.
        path: the path of the table in the file.
        values: its content.
        table: its declaration.
        edition: the edition that the file is read as.
    """

    def __init__(
        self, findings: Findings, path: KeyPath, values: Mapping[str, Any], table: Table, edition: int
    ) -> None:
        self.findings = findings
        self.path = path
        self.edition = edition
        self._values = values
        self._table = table

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
        return key in self._values

    def has_near(self, *names: str) -> bool:
        """Whether the file has an unknown key that may be meant as one of these, and leads to such an error."""
        unknown = [key for key in self._values if self._table.key(key, self.edition) is None]
        return any(nearest(key, names) for key in unknown)

    def names(self) -> tuple[str, ...]:
        """All keys of the table, in the order of the file."""
        return tuple(self._values)

    def key_span(self, key: str) -> Span:
        """The span of a key."""
        return self.findings.key((*self.path, key))

    def value_span(self, key: str) -> Span:
        """The span of a key's value."""
        return self.findings.value((*self.path, key))

    def where(self, key: str) -> str:
        """A key as messages name it: `` `src` in [torch] ``."""
        return f"`{key}` in {self.title}" if self.path else f"`{key}`"

    def _get(self, name: str, *types: type) -> tuple[Key, Any] | None:
        """A key's declaration and value, if the value has one of the types."""
        if (key := self._table.key(name, self.edition)) is None:
            return None
        if name not in self._values:
            if key.is_required(self.edition) and not self.has_near(name):
                message = f"{self.title} has no `{name}`" if self.path else f"there is no [{name}] table"
                self.findings.add(Code.MISSING_KEY, message, self.span, advice=f"add `{name}`: {key.expected}")
            return None
        value = self._values[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            message = f"{self.where(name)} must be {key.expected}, not {kind(value)}"
            self.findings.add(Code.WRONG_TYPE, message, self.value_span(name))
            return None
        return key, value

    def integer(self, name: str) -> int | None:
        """A non-negative integer below 2^63, as in TOML."""
        if (found := self._get(name, int)) is None:
            return None
        value: int = found[1]
        if value < 0 or value >= 1 << 63:
            problem = "must not be negative" if value < 0 else "is larger than TOML allows"
            self.findings.add(Code.BAD_VALUE, f"{self.where(name)} {problem}", self.value_span(name))
            return None
        return value

    def boolean(self, name: str) -> bool | None:
        """A boolean."""
        found = self._get(name, bool)
        return None if found is None else bool(found[1])

    def text(self, name: str) -> Text | None:
        """A string without control or bidirectional characters that its declaration admits."""
        if (found := self._get(name, str)) is None:
            return None
        key, value = found
        return self._admitted(key, value, self.value_span(name))

    def texts(self, name: str) -> Texts | None:
        """A list of strings, none of which is empty or has control or bidirectional characters; None if absent."""
        if (found := self._get(name, list)) is None:
            return None
        key, values = found
        texts = []
        for index, value in enumerate(values):
            span = self.findings.value((*self.path, name, index))
            if not isinstance(value, str):
                message = f"{self.where(name)} must be {key.expected}; this is {kind(value)}"
                self.findings.add(Code.WRONG_TYPE, message, span)
            elif not value:
                self.findings.add(Code.BAD_VALUE, f"{self.where(name)} has an empty string", span)
            elif text := self._admitted(key, value, span):
                texts.append(text)
        return tuple(texts)

    def _admitted(self, key: Key, value: str, span: Span) -> Text | None:
        """A string if it has no unsafe characters, and is one of the choices or matches the pattern."""
        if character := unsafe_character(value):
            message = (
                f"{self.where(key.name)} has the character {character}, which is invisible or changes how text reads"
            )
            self.findings.add(Code.BAD_VALUE, message, span)
            return None
        choices = (*key.choices, *self.findings.libraries) if key.choices is DEPENDS else key.choices
        if choices and value not in choices:
            label = did_you_mean(value, choices)
            advice = "" if label else f"known: {', '.join(choices)}"
            message = f"unknown {key.noun} `{value}` in {self.title}"
            self.findings.add(Code.BAD_VALUE, message, span, label=label, advice=advice)
            return None
        if key.pattern and key.noun and not re.fullmatch(key.pattern, value, re.ASCII):
            message = f"`{value}` is not {key.noun}"
            meant = meant_arch(value)
            fits = meant and re.fullmatch(key.pattern, meant, re.ASCII)
            label = f'did you mean "{meant}"?' if fits else f"such as {key.example.strip('[]')}"
            self.findings.add(Code.BAD_VALUE, message, span, label=label)
            return None
        return Located(value=value, span=span)

    def version(self, name: str) -> Located[Version] | None:
        """A version: a string of at most eight integers separated by dots."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(VERSION, text.value):
            message = f"{self.where(name)} must be integers separated by dots"
            self.findings.add(Code.BAD_VALUE, message, text.span, label='such as "12.8"')
            return None
        return Located(value=tuple(int(part) for part in text.value.split(".")), span=text.span)

    def versions(self, name: str, backends: Sequence[str]) -> dict[str, Located[Version]]:
        """A version for all backends, or a table of versions by backend; () for a backend without one."""
        if (found := self._get(name, str, dict)) is None:
            return {}
        key, value = found
        if isinstance(value, str):
            version = self.version(name)
            return dict.fromkeys(backends, version) if version else {}
        keys = tuple(Key(name=backend, kind=Kind.VERSION, doc=key.doc) for backend in backends)
        inner = Section(
            self.findings, (*self.path, name), value, Table(path=name, doc=key.doc, keys=keys), self.edition
        )
        inner.finish()
        return {backend: version for backend in backends if (version := inner.version(backend))}

    def section(self, name: str, declared: str) -> Section | None:
        """A table inside this one.

        Args:
            name: its key.
            declared: the path of its declaration, e.g. `general.cuda`.
        """
        found = self._get(name, dict)
        return None if found is None else self._inner((name,), found[1], table(declared))

    def named_sections(self, name: str, declared: str) -> tuple[Section, ...]:
        """The tables in a table whose keys the author chooses: `[kernel.<name>]`."""
        if (found := self._get(name, dict)) is None:
            return ()
        wrong = {key: value for key, value in found[1].items() if not isinstance(value, dict)}
        tables = {
            key: value
            for key, value in wrong.items()
            if isinstance(value, list) and value and isinstance(value[0], dict)
        }
        for key in tables:
            message = f"`[[{name}.{key}]]` is a list of tables"
            self.findings.add(
                Code.WRONG_TYPE, message, self.findings.value((name, key)), advice=f"write [{name}.{key}]"
            )
        if keys := [key for key in wrong if key not in tables]:
            message = f"`{keys[0]}` stands in [{name}] itself, which holds named sections only"
            advice = f"give the section a name: [{name}.<name>]"
            self.findings.add(Code.WRONG_TYPE, message, self.findings.key((name, keys[0])), advice=advice)
        return tuple(
            self._inner((name, key), value, table(declared)) for key, value in found[1].items() if key not in wrong
        )

    def sections(self, name: str) -> tuple[Section, ...]:
        """A list of tables."""
        if (found := self._get(name, list)) is None:
            return ()
        sections = []
        for index, value in enumerate(found[1]):
            if isinstance(value, dict):
                sections.append(self._inner((name, index), value, table(name)))
            else:
                message = f"{self.where(name)} must be a list of tables; this is {kind(value)}"
                self.findings.add(Code.WRONG_TYPE, message, self.findings.value((*self.path, name, index)))
        return tuple(sections)

    def _inner(self, path: KeyPath, values: Mapping[str, Any], declared: Table) -> Section:
        return Section(self.findings, (*self.path, *path), values, declared, self.edition)

    def finish(self, backend: str = "") -> None:
        """Report every key that the table does not have in this edition.

        Args:
            backend: the backend of a kernel section, which limits the valid keys.
        """
        known = [
            key.name
            for key in self._table.keys
            if key.is_in(self.edition) and (not backend or not key.backends or backend in key.backends)
        ]
        for name in self._values:
            if name not in known:
                where = f" in {self.title}" if self.path else ""
                label, advice = self._elsewhere(name, backend)
                label = label or did_you_mean(name, known)
                if not label and (near := nearest(name, [key.name for key in self._table.keys])):
                    label = f"did you mean `{near}`? It {self._elsewhere(near, backend)[0]}"
                if not label and not advice:
                    advice = f"known here: {', '.join(known)}"
                message = f"unknown key `{name}`{where}"
                self.findings.add(Code.UNKNOWN_KEY, message, self.key_span(name), label=label, advice=advice)

    def _elsewhere(self, name: str, backend: str) -> tuple[str, str]:
        """Where an unknown key would be valid: a label and help; empty if nowhere."""
        same = [key for key in self._table.keys if key.name == name]
        if any(key.is_in(self.edition) for key in same):
            owners = ", ".join(same[0].backends)
            return f"is a key of sections for {owners}; this one is for {backend}", ""
        if same:
            which = " and ".join(key.editions for key in same)
            return f"is a key of {which}", f"this file is read as edition {self.edition}: {self.findings.reason}"
        owner = next((known.path for known in TABLES if known.path and known.key(name, self.edition)), "")
        return (f"belongs in [{owner.replace('*', '<name>')}]", "") if owner and owner != "kernel-depends" else ("", "")
