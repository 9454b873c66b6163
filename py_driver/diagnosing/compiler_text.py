"""The output of compilers, assemblers and linkers, split into messages about places."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Severity(StrEnum):
    """The severity of a message."""

    ERROR = "error"
    WARNING = "warning"
    OTHER = "message"


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A message of a program.

    Attributes:
        severity: its severity.
        head: its first line.
        what: the word for the severity in that line.
        message: the text in one line, as the program printed it.
        file: its file, as the program named it; empty without one.
        line: the line in that file; 0 without one.
        column: the column in that line, 1-based; 0 without one.
        before: preceding lines: `In file included from`.
        after: following lines: the source line, the caret, notes.
    """

    severity: Severity
    head: str
    what: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


# clang, gcc: `file:1:2: error: text`; the column may be missing.
_PLACED: Final = re.compile(
    r"^(?P<file>[^\s:(][^:(]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<what>(?:fatal |internal compiler )?error|sorry, unimplemented|Error|warning|note|remark): (?P<message>.*)$"
)
# cudafe++, cicc and nvcc, whose C++ front end is EDG's: `file(1): error #20-D: text`.
_EDG: Final = re.compile(
    r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<what>(?:catastrophic |internal )?error|warning|remark|note)"
    r"(?: (?P<number>#[\w-]+))?: (?P<message>.*)$"
)
# `ptxas error   : text`, `ptxas FILE, line 3; error   : text`, `nvcc fatal   : text`.
_NVIDIA: Final = re.compile(
    r"^(?P<tool>ptxas|nvcc|nvlink|fatbinary|cicc|cudafe\+\+)(?: \S+, line \d+;)? "
    r"(?P<what>error|fatal|warning|info)\s*: (?P<message>.*)$"
)
# `ld.lld: error: text`, `clang: error: text`.
_TOOL: Final = re.compile(
    r"^(?:\S*/)?(?P<tool>ld\.lld|lld|zig|clang(?:\+\+)?|gcc|g\+\+|cc1plus|as|hipify): "
    r"(?P<what>(?:fatal )?error|warning): (?P<message>.*)$"
)
# The programs of the rules: tools/common.zig.
_STEP: Final = re.compile(r"^step: (?P<message>.*)$")
_BARE: Final = re.compile(r"^(?P<what>(?:fatal |LLVM )?(?:error|ERROR)|warning): (?P<message>.*)$")
_HEADS: Final = (_PLACED, _EDG, _NVIDIA, _TOOL, _STEP, _BARE)
_BEFORE: Final = re.compile(
    r"^In file included from |^ +from \S+:\d+[:,]|^In module |^[^\s:]+: (?:In|At) .*:$|^[^\s:]+: At global scope"
    r"|^[^\s:]+:\d+:\d+: +(?:required|recursively required|instantiated) "
)
_COUNTS: Final = re.compile(
    r"^\d+ (?:warnings?|errors?)(?: and \d+ errors?)? generated(?: when compiling for \S+)?\.$"
    r"|^\d+ (?:errors?|catastrophic errors?) detected in the compilation of |^compilation terminated\.$"
    r"|^Remark: The warnings can be suppressed with |^Error limit reached\.$|^Compilation terminated\.$"
)
_LAST: Final = re.compile(r"^Ptx assembly aborted due to errors$|^linker command failed with exit code ")
_EDG_INDENT: Final = 2
_CARET: Final = re.compile(r"^( *)\^")


def parse(text: str) -> tuple[list[Said], list[str]]:
    """Split the output of a program into messages.

    Args:
        text: the output.

    Returns:
        The messages, in order; and the lines that belong to none.
    """
    cutter = _Cutter()
    for line in text.splitlines():
        if not _COUNTS.match(line):
            cutter.feed(line)
    cutter.end()
    found = cutter.found
    if any(entry.severity is Severity.ERROR and not _LAST.match(entry.message) for entry in found):
        found = [entry for entry in found if not _LAST.match(entry.message)]
    return found, cutter.loose


class _Cutter:
    """Splits lines into messages.

    Attributes:
        found: the messages.
        loose: lines before the first message.
    """

    def __init__(self) -> None:
        self.found: list[Said] = []
        self.loose: list[str] = []
        self._head: re.Match[str] | None = None
        self._leading: list[str] = []
        self._before: list[str] = []
        self._body: list[str] = []

    def feed(self, line: str) -> None:
        """Process the next line."""
        head = next((match for shape in _HEADS if (match := shape.match(line))), None)
        if head is not None and (self._head is None or head.groupdict().get("what") != "note"):
            leading, self._before = self._before, []
            self.end()
            self._head, self._leading = head, leading
        elif head is None and (_BEFORE.match(line) or (self._before and self._head is None)):
            self._before.append(line)
        elif self._head is not None:
            self._body += [*self._before, line]
            self._before = []
        elif line.strip():
            self.loose.append(line)

    def end(self) -> None:
        """Finish the current message."""
        if self._head is not None:
            self.found.append(_said(self._head, self._leading, [*self._body, *self._before]))
        else:
            self.loose += self._before
        self._head, self._body, self._before = None, [], []


def _said(head: re.Match[str], before: Sequence[str], body: Sequence[str]) -> Said:
    """The message for a first line and the lines around it."""
    groups = head.groupdict()
    word = groups.get("what") or "error"
    severity = Severity.OTHER
    if "error" in word.lower() or word in {"fatal", "sorry, unimplemented"}:
        severity = Severity.ERROR
    elif word == "warning":
        severity = Severity.WARNING
    after = list(body)
    while after and not after[-1].strip():
        after.pop()
    column = int(groups.get("column") or 0)
    message = groups["message"].strip()
    if head.re is _EDG:
        column = _edg_column(after)
        message = f"{message} [{groups['number']}]" if groups["number"] else message
    return Said(
        severity=severity,
        head=head.string,
        what=word,
        message=message,
        file=groups.get("file") or "",
        line=int(groups.get("line") or 0),
        column=column,
        before=tuple(before),
        after=tuple(after),
    )


def _edg_column(after: Iterable[str]) -> int:
    """The column of the caret of EDG's front end, which indents the source line."""
    carets = (match for line in after if (match := _CARET.match(line)))
    first = next(carets, None)
    return max(0, len(first[1]) - _EDG_INDENT + 1) if first else 0


_CLANG_SOURCE: Final = re.compile(r"^ *(\d+) \| (.*)$")


def source_line(entry: Said) -> str | None:
    """The source line that a message shows first; None if it shows none."""
    if not entry.after:
        return None
    first = entry.after[0]
    if match := _CLANG_SOURCE.match(first):
        return match[2] if int(match[1]) == entry.line else None
    return first[_EDG_INDENT:] if first.startswith(" " * _EDG_INDENT) and len(entry.after) > 1 else None
