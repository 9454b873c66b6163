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
    directives = list(_DIRECTIVE.finditer(_without_comments(text)))
    guarded = _is_guarded(directives)
    depth = -1 if guarded else 0
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


def _is_guarded(directives: list[re.Match[str]]) -> bool:
    """Whether a text starts with `#ifndef X` and `#define X`."""
    names = [one["name"] for one in directives[:2]]
    words = [one["rest"].split() for one in directives[:2]]
    return names == ["ifndef", "define"] and all(words) and words[0][0] == words[1][0]
