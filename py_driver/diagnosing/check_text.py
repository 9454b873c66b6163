"""The ABI check's output about an extension, with sources instead of objects, and lines that mention a symbol."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py_driver.actions.author_paths import AuthorPaths, BuiltProject

OBJECT: Final = re.compile(r"(?<![\w/])\S*bazel-out/[^\s:()]+")
"""The path of an object in a linker's output."""

_SYMBOL: Final = re.compile(r"^  undefined-symbol: (.+?): \w")
_BY: Final = re.compile(rf"^    referenced by (?P<object>{OBJECT.pattern})(?P<place> at \S+)?(?P<function> in .*)$")
_WORD: Final = re.compile(r"([A-Za-z_]\w*)(?:\[[\w:]+\])*$")
_FEW: Final = 4


def told(lines: Iterable[str], paths: AuthorPaths, project: BuiltProject | None) -> Iterator[str]:
    """The lines of the check for people.

    Args:
        lines: the output of rules/private/tools/abi_check/check.zig, without the first line.
        paths: the paths of the build.
        project: the project of the extension.
    """
    word = ""
    for line in lines:
        if match := _SYMBOL.match(line):
            word = _word(match[1])
        if match := _BY.match(line):
            yield _reference(match, word, paths, project)
        else:
            yield OBJECT.sub(lambda match: paths.source_of(match[0]) or match[0], line)


def _reference(match: re.Match[str], word: str, paths: AuthorPaths, project: BuiltProject | None) -> str:
    """A reference to a symbol, with its place from debug information, or else the lines with the symbol's name."""
    source = paths.source_of(match["object"]) or match["object"]
    location = match["place"] or ""
    if not location and (found := paths.lines_with(match["object"], word)):
        few = ", ".join(map(str, found[:_FEW])) + (", ..." if len(found) > _FEW else "")
        location = f" ({'line' if len(found) == 1 else 'lines'} {few})"
    elif location:
        location = paths.line(location, project)
    return f"    referenced by {source}{location}{match['function']}"


def _word(symbol: str) -> str:
    """The C++ identifier in a symbol: `scale` for `ns::scale(float*, long)`."""
    depth = 0
    for at, sign in enumerate(symbol):
        if sign == "(" and depth == 0 and at > 0:
            symbol = symbol[:at]
            break
        depth += (sign == "<") - (sign == ">")
    match = _WORD.search(re.sub(r"<.*>$", "", symbol))
    return match[1] if match else ""
