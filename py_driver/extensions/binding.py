"""The binding of an extension module's functions: on torch::Library for every Python, or by pybind11 for each."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import tomli

from py_driver.errors import Span
from py_driver.plan.cpp_text import code_of
from py_driver.plan.includes import scan
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.pythons import Python
    from py_driver.plan.plan import Variant

LIBRARY: Final = "library"
"""The way with one binary for every Python."""

PYBIND: Final = "pybind"
"""The way with a binary for each Python."""

_NAMESPACE: Final = "pybind11"
_ALIAS: Final = re.compile(rf"\bnamespace\s+(\w+)\s*=\s*(?:::)?\s*{_NAMESPACE}\s*;")
_OWN_COPY: Final = re.compile(rf"(^|/){_NAMESPACE}/")
"""Files of a copy of pybind11 in the project, which use its whole API."""


class Bindings(NamedTuple):
    """The choice of how modules are bound.

    Attributes:
        way: `LIBRARY` or `PYBIND` if the user chose it, for all modules that allow it; else empty.
        pythons: for a configuration, the Pythons of modules that are bound by pybind11, in order. It is called only if
            there are such modules.
    """

    way: str
    pythons: Callable[[Configuration], tuple[Python, ...]]


class Reason(NamedTuple):
    """A use in a module's sources that needs one Python.

    Attributes:
        word: the text, e.g. `py::dict`.
        span: its location; the file is relative to the project.
    """

    word: str
    span: Span


class _Word(NamedTuple):
    """A row of binding.toml, which explains the fields."""

    where: str
    word: str
    header: str


def way_of(variant: Variant) -> str:
    """The way of binding of a module: `LIBRARY` or `PYBIND`; empty if it registers ops itself.

    Args:
        variant: the variant of a module.
    """
    return PYBIND if variant.python else LIBRARY if variant.binding else ""


def find_reason(texts: Mapping[str, str], *, binds: bool) -> Reason | None:
    """The first use of Python in a module's sources that is not possible with torch::Library; None if there is none.

    Args:
        texts: the texts of the files that the module's sources reach, by path, in the order of the search.
        binds: whether they contain PYBIND11_MODULE.
    """
    own = {path: text for path, text in texts.items() if not _OWN_COPY.search(path)}
    codes = {path: code_of(text) for path, text in own.items()}
    aliases = {"py", _NAMESPACE, *(alias for code in codes.values() for alias in _ALIAS.findall(code))}
    included = frozenset(include.path for text in own.values() for include in scan(text))
    pattern = _pattern(tuple(sorted(aliases)), binds, _headers() & included)
    for path, code in codes.items():
        if match := pattern.search(code):
            return Reason(word=" ".join(match[0].split()).rstrip("(<{ "), span=_span(path, own[path], match.start()))
    return None


def _span(path: str, text: str, start: int) -> Span:
    """A place in a file, for messages."""
    before = text[:start]
    line = before.count("\n") + 1
    return Span(file=path, line=line, column=start - before.rfind("\n"), text=text.splitlines()[line - 1])


@cache
def _facts() -> dict[str, Any]:
    return tomli.loads(resource("binding.toml"))


@cache
def _words() -> tuple[_Word, ...]:
    return tuple(_Word(row["where"], row["word"], row.get("with", "")) for row in _facts()["word"])


def _headers() -> frozenset[str]:
    return frozenset(word.header for word in _words() if word.header)


@cache
def _pattern(aliases: tuple[str, ...], binds: bool, headers: frozenset[str]) -> re.Pattern[str]:  # noqa: FBT001  (cached)
    """The pattern of uses of Python in a module's code."""
    space = f"(?:{'|'.join(map(re.escape, aliases))})"
    where = {"any", "binding" if binds else "python"}
    words = [word.word for word in _words() if word.where in where and (not word.header or word.header in headers)]
    names = rf"@py@::(?:{'|'.join(_facts()['names'])})\b"
    alternatives = (f"(?:{word})" for word in (names, *words))
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})".replace("@py@", space))
