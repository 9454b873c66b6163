"""The `#include` lines of C++ and CUDA text, found without a preprocessor."""

from __future__ import annotations

import itertools
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from py_driver.matrix.backends import BUILT
from py_driver.plan.cpp_text import blanked, code_of, without_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DIRECTIVE = re.compile(
    r"^[ \t]*\#[ \t]*(?P<name>[a-z]+)\b"
    r'(?P<rest>(?:[^"/\n]++|"(?:[^"\\\n]|\\[^\n])*+"?|/(?!/))*+)[^\n]*',
    re.MULTILINE,
)
"""A directive, and the text behind it up to a comment."""

_TARGET = re.compile(r'[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)')

_SUSPECT = re.compile(r"#[ \t]*(?:include(?:_next|[ \t]*[A-Za-z_\\/])|import|embed)|__has_include")
"""A sign that a text may be opaque: searched for first, since few texts have it."""

_OPAQUE = re.compile(
    r"^[ \t]*#[ \t]*(?:include_next\b|import\b|embed\b|include[ \t]*(?:[A-Za-z_]|\\\n))|__has_include[ \t]*\([ \t]*\"",
    re.MULTILINE,
)

_NAMED = re.compile(
    r'\b__has_include(?:_next)?[ \t]*\([ \t]*(?P<tested>[<"][^>"\n]+[>"])'
    r'|^[ \t]*#[ \t]*define[ \t]+\w+[ \t]+(?P<macro><[^>\n]+>|"[^"\n]+")[ \t]*$',
    re.MULTILINE,
)
"""A header that `__has_include` tests, or that a macro stands for."""

_GUARD = {"ifndef": r"(\w+)", "if": r"!\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))"}
"""The text behind the directives that begin an include guard."""


_ALL = frozenset(BUILT)
_MACROS = {family.macro: frozenset({name}) for name, family in BUILT.items()}
_DEFINED = re.compile(r"defined\s*(?:\(\s*(\w+)\s*\)|\b(\w+))")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlL]*")
_OPENMP = re.compile(r"\(?\s*(?P<not>!?)\s*defined\s*\(?\s*_OPENMP\s*\)?\s*\)?")
_UNKNOWN = (_ALL, frozenset[str]())
"""The backends for which an unknown condition may hold, and those for which it must."""

TORCH_FOLDERS = ("torch/", "ATen/", "c10/", "caffe2/")
CUTLASS_FOLDERS = ("cutlass/", "cute/")
"""Prefixes of the paths of torch's headers."""

PYTHON_HEADERS = re.compile(
    r"(Python|structmember)\.h|pybind11/.*|torch/(extension|python)\.h|torch/csrc/(.*/)?(pybind|python_\w+)\.h"
)
"""Python's headers, and those of pybind11 and torch that include them."""


_PYTHON_NAMES = re.compile(r"\bPy(?!Init_)[A-Z_]\w*")


class Include(NamedTuple):
    """An `#include` line.

    Attributes:
        path: the included path, as written.
        quoted: whether it stands in quotes; else in angle brackets.
        conditional: whether it stands inside an `#if` that is no include guard.
        backends: the backends whose compilers may see it, as far as its `#if`s test the macros of backends.
        known: whether its `#if`s test nothing else, so that these backends certainly see it.
        with_openmp: whether it stands inside an `#if` that tests `_OPENMP`.
        start: the start of the path in the text, in characters.
    """

    path: str
    quoted: bool
    conditional: bool
    backends: frozenset[str]
    known: bool
    with_openmp: bool
    start: int


def without_comments(text: str) -> str:
    """The text with blanks for comments, and without blanks at the ends of lines, as `compile sources` writes it."""
    return re.sub(r"[ \t]+$", "", blanked(text, "comment"), flags=re.MULTILINE)


def _directives(text: str) -> list[re.Match[str]]:
    """The directives of a text, each a match of `_DIRECTIVE`, whose text ends where a comment begins."""
    end = max((found.end() for found in _DIRECTIVE.finditer(text)), default=0)  # they are at the top of long texts
    return list(_DIRECTIVE.finditer(without_hidden(text, end)))


def scan(text: str) -> tuple[Include, ...]:
    """The includes of a text, in order, except those with a macro for a path.

    Args:
        text: a source or header.
    """
    text = text.replace("\ufeff", " ", 1)  # a byte order mark, which compilers skip
    directives = _directives(text)
    guards = 1 if _is_guarded(text, directives) else 0
    branches = [_Branch(_ALL, _ALL)]
    found = []
    for directive in directives:
        name = directive["name"]
        if name == "include":
            if target := _TARGET.match(directive["rest"]):
                group = "quoted" if target["quoted"] else "angled"
                include = Include(
                    path=target[group],
                    quoted=group == "quoted",
                    conditional=len(branches) - 1 > guards,
                    backends=branches[-1].seen,
                    known=all(branch.known for branch in branches[1 + guards :]),
                    with_openmp=branches[-1].with_openmp,
                    start=directive.start("rest") + target.start(group),
                )
                found.append(include)
        else:
            _follow(branches, directive)
    return tuple(found)


def seen(text: str, backends: Iterable[str]) -> str:
    """The text with blanks inside of every `#if` that holds for none of the backends.

    Args:
        text: a source or header.
        backends: the backends whose compilers read it.
    """
    wanted = frozenset(backends)
    branches = [_Branch(_ALL, _ALL)]
    parts, at = [], 0
    for directive in _directives(text):
        parts.append(_if_seen(text[at : directive.start()], branches[-1].seen & wanted))
        _follow(branches, directive)
        at = directive.start()
    return "".join([*parts, _if_seen(text[at:], branches[-1].seen & wanted)])


def _if_seen(part: str, backends: frozenset[str]) -> str:
    return part if backends else re.sub(r"[^\n]", " ", part)


class _Branch(NamedTuple):
    """The backends that may see a branch of an `#if`, and those that may see a later branch.

    Attributes:
        seen: the backends that may see the branch.
        left: the backends that may see later branches.
        known: whether its condition and those before it test only the macros of backends.
        with_openmp: whether a compiler sees the branch only with OpenMP.
        without_openmp: whether an earlier branch is for compilers without OpenMP, so that later ones are for OpenMP
            only.
    """

    seen: frozenset[str]
    left: frozenset[str]
    known: bool = True
    with_openmp: bool = False
    without_openmp: bool = False


def _follow(branches: list[_Branch], directive: re.Match[str]) -> None:
    """Enter or leave a branch, if the directive does."""
    name = directive["name"]
    if name == "endif":
        del branches[max(1, len(branches) - 1) :]
    elif name.startswith(("if", "el")):
        _enter(branches, name, directive["rest"])


def _enter(branches: list[_Branch], name: str, condition: str) -> None:
    """Enter the branch of an `#if`, or the next branch after an `#elif` or `#else`."""
    left, before = branches[-1].seen, _Branch(_ALL, _ALL)
    if name.startswith("el") and len(branches) > 1:
        before = branches.pop()
        left = before.left
    elif name.startswith("el"):
        left = _ALL
    negated, prefix = "n" in name.removeprefix("el"), name in {"ifdef", "ifndef", "elifdef", "elifndef"}
    asked = f"{'!' * negated}defined {condition}" if prefix else condition
    may, must = (_ALL, _ALL) if name == "else" else _holds(asked)
    parts = [part.strip() for part in asked.split("&&")] if name != "else" else []
    tests = [bool(found["not"]) for part in parts if (found := _OPENMP.fullmatch(part))]
    with_openmp = branches[-1].with_openmp or before.without_openmp or False in tests
    without = before.without_openmp or (len(parts) == 1 and True in tests)
    branches.append(_Branch(left & may, left - must, before.known and may == must, with_openmp, without))


def _holds(condition: str) -> tuple[frozenset[str], frozenset[str]]:
    """The backends for which a condition may hold, and those for which it must."""
    text = condition.strip()
    if "?" in text:
        return _UNKNOWN
    for operator, join in (("||", frozenset[str].union), ("&&", frozenset[str].intersection)):
        parts = _parts(text, operator)
        if len(parts) > 1:
            held = [_holds(part) for part in parts]
            return join(*(may for may, _ in held)), join(*(must for _, must in held))
    inner = text[1:].strip() if text.startswith("!") else ""
    if inner and (
        _DEFINED.fullmatch(inner) or _NUMBER.fullmatch(inner) or _is_enclosed(inner) or inner.startswith("!")
    ):
        may, must = _holds(inner)
        return _ALL - must, _ALL - may
    if _is_enclosed(text):
        return _holds(text[1:-1])
    if _NUMBER.fullmatch(text):
        return (_ALL, _ALL) if text.strip("0xXbBuUlL") else (frozenset(), frozenset())
    asked = _DEFINED.fullmatch(text)
    known = _MACROS.get(asked[1] or asked[2]) if asked else None
    return _UNKNOWN if known is None else (known, known)


def _parts(text: str, operator: str) -> list[str]:
    """The parts of a condition between operators outside of parentheses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and text.startswith(operator, at):
            parts.append(text[start:at])
            start = at + len(operator)
    return [*parts, text[start:]]


def _is_enclosed(text: str) -> bool:
    """Whether the parentheses at both ends of a condition are a pair."""
    depths = list(itertools.accumulate((character == "(") - (character == ")") for character in text))
    return text.startswith("(") and depths[-1] == 0 and 0 not in depths[:-1]


def is_opaque(text: str) -> bool:
    """Whether a text reads files that `scan` does not name: by a macro, or by a directive other than `#include`."""
    return _SUSPECT.search(text) is not None and _OPAQUE.search(blanked(text, "raw", "comment")) is not None


def named(text: str) -> tuple[Include, ...]:
    """The headers that a text names without an `#include` of them: in `__has_include`, or in a macro for an `#include`.

    Args:
        text: a source or header.
    """
    if _SUSPECT.search(text) is None:
        return ()
    headers = ((found, found["tested"] or found["macro"]) for found in _NAMED.finditer(blanked(text, "raw", "comment")))
    return tuple(_as_included(text, header, found.start(found.lastgroup or 0) + 1) for found, header in headers)


def _as_included(text: str, header: str, start: int) -> Include:
    """A header as `scan` would report an include of it before the line of a position, which may continue others."""
    line = text.rfind("\n", 0, start) + 1
    while text[:line].endswith("\\\n"):
        line = text.rfind("\n", 0, line - 1) + 1
    before = len(scan(text[:line]))
    found = scan(f"{text[:line]}#include {header}\n{text[line:]}")[before]
    return found._replace(start=start)


def closure(source: str, headers: Iterable[str], included: Callable[[str], Iterable[str] | None]) -> list[str]:
    """A source and the headers that it includes: all of the same name; all headers, if its includes are unknown.

    Args:
        source: the path of the source.
        headers: the paths of the headers that it may include.
        included: a function that returns the includes of a file, as written; None if they are unknown.
    """
    by_name: dict[str, list[str]] = {}
    for header in headers:
        by_name.setdefault(posixpath.basename(header), []).append(header)
    found = {source: None}
    todo = [source]
    for name in todo:
        paths = included(name)
        if paths is None:
            return [source, *headers]
        for path in paths:
            new = [path for path in by_name.get(posixpath.basename(path), ()) if path not in found]
            found.update(dict.fromkeys(new))
            todo += new
    return todo


def first_use(text: str, macro: str, *, tests: bool = False) -> int | None:
    """The position of the first use of a macro's value, in characters, or None if there is no use.

    Comments, strings and definitions of the macro are not uses.

    Args:
        text: a source or header.
        macro: its name.
        tests: whether a test that it is defined is a use.
    """
    if macro not in text:
        return None
    plain = code_of(text)
    tested = "" if tests else r"defined[ \t]*+\(?|ifn?def|elifn?def|"
    asked = rf"(?:{tested}define|undef)[ \t]*+"
    uses = re.finditer(rf"(?P<asked>\b{asked})?+\b{macro}\b", plain)
    return next((found.start() for found in uses if not found["asked"]), None)


def uses_python(text: str) -> bool:
    """Whether a text uses names of Python's headers, which upstream's registration.h includes."""
    return "Py" in text and _PYTHON_NAMES.search(code_of(text)) is not None


def use(text: str, macro: str, *, tests: bool = False) -> Include | None:
    """The first use of a macro, as `scan` would report an include in its line; None if there is no use."""
    if (start := first_use(text, macro, tests=tests)) is None:
        return None
    return _as_included(text, f"<{macro}>", start)


def _is_guarded(text: str, directives: list[re.Match[str]]) -> bool:
    """Whether an include guard encloses a text except comments: `#ifndef X`, `#define X`, and `#endif` at the end."""
    while directives and directives[0]["name"] == "pragma":
        directives = directives[1:]
    names = [directive["name"] for directive in directives]
    if len(names) <= len(_GUARD) or names[1] != "define" or names[-1] != "endif":
        return False
    opening = _GUARD.get(names[0])
    guard = re.fullmatch(opening, directives[0]["rest"].strip()) if opening else None
    defined = directives[1]["rest"].split()
    if guard is None or defined[:1] != [guard.group(guard.lastindex or 0)]:
        return False
    depth = 0
    for name in names[:-1]:
        depth += (name in {"if", "ifdef", "ifndef"}) - (name == "endif")
        if depth == 0 or (depth == 1 and name in {"else", "elif", "elifdef", "elifndef"}):
            return False
    return depth == 1 and not blanked(text[directives[-1].start() :], "raw", "comment").partition("\n")[2].strip()
