"""The `#include` lines of C++ and CUDA text, found without a preprocessor."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from py_driver.matrix.backends import BUILT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# What does not end goes up to the end of the text, or of the line: each character is looked at once.
_SKIPPED = re.compile(
    r'(?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z))'
    r"|(?P<comment>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))"
    r'|"(?:[^"\\\n]|\\[\s\S])*+"?'
    r"|'(?:[^'\\\n]|\\.)'"
)
_DIRECTIVE = re.compile(r"^[ \t]*\#[ \t]*(?P<name>[a-z]+)\b(?P<rest>[^\n]*)", re.MULTILINE)
_TARGET = re.compile(r'[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)')

_SUSPECT = re.compile(r"#[ \t]*(?:include(?:_next|[ \t]*[A-Za-z_\\/])|import|embed)|__has_include")
"""What a text has that may be opaque: looked for first, since few have it."""

_OPAQUE = re.compile(
    r"^[ \t]*#[ \t]*(?:include_next\b|import\b|embed\b|include[ \t]*(?:[A-Za-z_]|\\\n))|__has_include[ \t]*\([ \t]*\"",
    re.MULTILINE,
)

_GUARD = {"ifndef": r"(\w+)", "if": r"!\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))"}
"""How an include guard begins: what stands behind a directive."""


_ALL = frozenset(BUILT)
_MACROS = {macro: frozenset({name}) for name, one in BUILT.items() for macro in one.macros}
_DEFINED = re.compile(r"\(?\s*(?P<not>!?)\s*defined\s*\(?\s*(?P<macro>\w+)\s*\)?\s*\)?")

TORCH_FOLDERS = ("torch/", "ATen/", "c10/", "caffe2/")
CUTLASS_FOLDERS = ("cutlass/", "cute/")
"""What the paths of torch's headers begin with."""

PYTHON_HEADERS = re.compile(
    r"(Python|structmember)\.h|pybind11/.*|torch/(extension|python)\.h|torch/csrc/(.*/)?(pybind|python_\w+)\.h"
)
"""Python's headers, and those of pybind11 and torch that include them."""


class Include(NamedTuple):
    """An `#include` line.

    Attributes:
        path: what is included, as written.
        quoted: whether it stands in quotes; else in angle brackets.
        conditional: whether it stands inside an `#if`; an include guard does not count.
        backends: those whose compilers may see it, as far as its `#if`s ask for the macros that tell backends apart.
        start: where the path starts in the text, in characters.
    """

    path: str
    quoted: bool
    conditional: bool
    backends: frozenset[str]
    start: int


def without_comments(text: str) -> str:
    """The text with blanks for comments, and nothing at the ends of lines, as `compile sources` makes it."""
    return re.sub(r"[ \t]+$", "", _blanked(text, "comment"), flags=re.MULTILINE)


def code_of(text: str) -> str:
    """The text with blanks for comments, strings and characters; the names of quoted `#include`s go too."""
    return _blanked(text)


def _blanked(text: str, *kinds: str) -> str:
    """The text with blanks for some groups of `_SKIPPED`, or for all of it: other characters stay where they are."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0]) if not kinds or any(found[kind] for kind in kinds) else found[0]

    return _SKIPPED.sub(blank, text)


def scan(text: str) -> tuple[Include, ...]:
    """The includes of a text, in its order; those with a macro for a path are left out.

    Args:
        text: a source or header.
    """
    plain = _blanked(text.replace("\ufeff", " ", 1), "raw", "comment")  # a byte order mark, which compilers skip
    directives = list(_DIRECTIVE.finditer(plain))
    guards = 1 if _is_guarded(plain, directives) else 0
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
                    start=directive.start("rest") + target.start(group),
                )
                found.append(include)
        elif name == "endif":
            branches = branches[:-1] or branches
        elif name.startswith(("if", "el")):
            _enter(branches, name, directive["rest"])
    return tuple(found)


class _Branch(NamedTuple):
    """The backends that may see a branch of an `#if`, and those that may see one after it."""

    seen: frozenset[str]
    left: frozenset[str]


def _enter(branches: list[_Branch], name: str, condition: str) -> None:
    """Go into a branch: that of an `#if`, or the next one after `#elif` and its kin."""
    left = branches[-1].seen
    if name.startswith("el"):
        left = branches.pop().left if len(branches) > 1 else _ALL
    negated, prefix = "n" in name.removeprefix("el"), name in {"ifdef", "ifndef", "elifdef", "elifndef"}
    asked = f"{'!' * negated}defined {condition}" if prefix else condition
    known = _ALL if name == "else" else _backends(asked)
    may, must = (_ALL, frozenset[str]()) if known is None else (known, known)
    branches.append(_Branch(seen=left & may, left=left - must))


def _backends(condition: str) -> frozenset[str] | None:
    """The backends for which a condition holds that asks for their macros alone, with `||`; None for any other."""
    found: frozenset[str] = frozenset()
    for part in condition.split("||"):
        asked = _DEFINED.fullmatch(part.strip())
        if asked is None or asked["macro"] not in _MACROS:
            return None
        here = _MACROS[asked["macro"]]
        found |= _ALL - here if asked["not"] else here
    return found


def is_opaque(text: str) -> bool:
    """Whether a text reads files that `scan` does not name: by a macro, or by a directive other than `#include`."""
    return _SUSPECT.search(text) is not None and _OPAQUE.search(_blanked(text, "raw", "comment")) is not None


def closure(source: str, headers: Iterable[str], included: Callable[[str], Iterable[str] | None]) -> list[str]:
    """A source and the headers that it includes: of the same name, all; of all names, if nobody can tell.

    Args:
        source: path of the source.
        headers: paths of what it may include.
        included: what a file of these includes, as written; None if that cannot be told.
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
            new = [one for one in by_name.get(posixpath.basename(path), ()) if one not in found]
            found.update(dict.fromkeys(new))
            todo += new
    return todo


def first_use(text: str, macro: str) -> int | None:
    """Where a text first uses the value of a macro, in characters, or None if it does nowhere.

    Comments, strings and lines that define the macro are no use, nor is the question whether it is defined.

    Args:
        text: a source or header.
        macro: its name.
    """
    if macro not in text:
        return None
    plain = code_of(text)
    asked = r"(?:defined[ \t]*+\(?|ifn?def|elifn?def|define|undef)[ \t]*+"
    uses = re.finditer(rf"(?P<asked>\b{asked})?+\b{macro}\b", plain)
    return next((found.start() for found in uses if not found["asked"]), None)


def use(text: str, macro: str) -> Include | None:
    """The first use of a macro, as `scan` would tell of an include in its line; None if there is no use."""
    if (start := first_use(text, macro)) is None:
        return None
    line = text.rfind("\n", 0, start) + 1
    found = scan(f"{text[:line]}#include <{macro}>\n{text[line:]}")
    return next(one._replace(start=start) for one in found if one.path == macro)


def _is_guarded(text: str, directives: list[re.Match[str]]) -> bool:
    """Whether an include guard is around a text without comments: `#ifndef X`, `#define X`, and `#endif` at the end."""
    while directives and directives[0]["name"] == "pragma":
        directives = directives[1:]
    names = [one["name"] for one in directives]
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
    return depth == 1 and not text[directives[-1].end() :].strip()
