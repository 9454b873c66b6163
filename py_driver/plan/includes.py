"""The `#include` lines of C++ and CUDA text, found without a preprocessor."""

from __future__ import annotations

import re
from typing import NamedTuple

# What does not end goes up to the end of the text, or of the line: each character is looked at once.
_SKIPPED = re.compile(
    r'(?P<blank>\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z)'
    r"|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))"
    r'|"(?:[^"\\\n]|\\[\s\S])*+"?'
    r"|'(?:[^'\\\n]|\\.)'"
)
_DIRECTIVE = re.compile(r"^[ \t]*\#[ \t]*(?P<name>[a-z]+)\b(?P<rest>[^\n]*)", re.MULTILINE)
_TARGET = re.compile(r'[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)')

_GUARD = {"ifndef": r"(\w+)", "if": r"!\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))"}
"""How an include guard begins: what stands behind a directive."""


TORCH_FOLDERS = ("torch/", "ATen/", "c10/", "caffe2/")
"""What the paths of torch's headers begin with."""


class Include(NamedTuple):
    """An `#include` line.

    Attributes:
        path: what is included, as written.
        quoted: whether it stands in quotes; else in angle brackets.
        conditional: whether it stands inside an `#if`; an include guard does not count.
        start: where the path starts in the text, in characters.
    """

    path: str
    quoted: bool
    conditional: bool
    start: int


def _without_comments(text: str) -> str:
    """The text with blanks for comments and raw strings: all other characters stay where they are."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0]) if found["blank"] else found[0]

    return _SKIPPED.sub(blank, text)


def scan(text: str) -> tuple[Include, ...]:
    """The includes of a text, in its order; those with a macro for a path are left out.

    Args:
        text: a source or header.
    """
    plain = _without_comments(text)
    directives = list(_DIRECTIVE.finditer(plain))
    depth = -1 if _is_guarded(plain, directives) else 0
    found = []
    for directive in directives:
        name = directive["name"]
        if name in {"if", "ifdef", "ifndef"}:
            depth += 1
        elif name == "endif":
            depth -= 1
        elif name == "include" and (target := _TARGET.match(directive["rest"])):
            group = "quoted" if target["quoted"] else "angled"
            start = directive.start("rest") + target.start(group)
            found.append(Include(path=target[group], quoted=group == "quoted", conditional=depth > 0, start=start))
    return tuple(found)


def first_use(text: str, macro: str) -> int | None:
    """Where a text first uses the value of a macro, in characters, or None if it does nowhere.

    Comments, strings and lines that define the macro are no use, nor is the question whether it is defined.

    Args:
        text: a source or header.
        macro: its name.
    """
    if macro not in text:
        return None
    plain = _SKIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    asked = r"(?:defined[ \t]*+\(?|ifn?def|elifn?def|define|undef)[ \t]*+"
    uses = re.finditer(rf"(?P<asked>\b{asked})?+\b{macro}\b", plain)
    return next((found.start() for found in uses if not found["asked"]), None)


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
