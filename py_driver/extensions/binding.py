"""How the functions of an extension module are bound: on torch::Library for every Python, or by pybind11 for each."""

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
"""The way that has one binary for every Python."""

PYBIND: Final = "pybind"
"""The way that has one for each Python."""

_NAMESPACE: Final = "pybind11"
_ALIAS: Final = re.compile(rf"\bnamespace\s+(\w+)\s*=\s*(?:::)?\s*{_NAMESPACE}\s*;")
_OWN_COPY: Final = re.compile(rf"(^|/){_NAMESPACE}/")
"""Files of a copy of pybind11 in the project, which use all of it."""


class Bindings(NamedTuple):
    """How modules are to be bound.

    Attributes:
        way: `LIBRARY` or `PYBIND` if the user has chosen it for all modules that it is possible for; else empty.
        pythons: for a configuration the Pythons of modules that are bound by pybind11, in their order. It is called if
            there are such modules.
    """

    way: str
    pythons: Callable[[Configuration], tuple[Python, ...]]


class Reason(NamedTuple):
    """What in the sources of a module needs one Python.

    Attributes:
        word: as written, e.g. `py::dict`.
        span: where; its file is relative to the project.
    """

    word: str
    span: Span


class _Word(NamedTuple):
    """A row of binding.toml: see there."""

    where: str
    word: str
    header: str


def way_of(variant: Variant) -> str:
    """How a module is bound: `LIBRARY` or `PYBIND`; empty if it registers ops itself.

    Args:
        variant: of a module.
    """
    return PYBIND if variant.python else LIBRARY if variant.binding else ""


def find_reason(texts: Mapping[str, str], *, binds: bool) -> Reason | None:
    """The first use of Python in the sources of a module that torch::Library has no place for; None if there is none.

    Args:
        texts: of the files that the module's sources reach, by path, in the order in which they are looked at.
        binds: whether they have PYBIND11_MODULE.
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
    """What is looked for in the code of a module."""
    space = f"(?:{'|'.join(map(re.escape, aliases))})"
    where = {"any", "binding" if binds else "python"}
    words = [word.word for word in _words() if word.where in where and (not word.header or word.header in headers)]
    names = rf"@py@::(?:{'|'.join(_facts()['names'])})\b"
    alternatives = (f"(?:{word})" for word in (names, *words))
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})".replace("@py@", space))
