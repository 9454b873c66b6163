"""Analysis of compilers' intermediate texts: the headers of preprocessed sources, and the code in PTX.

This module reads and writes no files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKER = re.compile(rb'^# \d+ "((?:[^"\\\n]|\\.)*)"((?: \d)*)\r?\n', re.MULTILINE)
_PTX = re.compile(rb'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|^[ \t]*\.target\b[^\n]*', re.DOTALL | re.MULTILINE)
_UMBRELLAS = ("torch/all.h", "torch/extension.h", "torch/torch.h", "ATen/ATen.h")
_ADVICE = (
    "is an umbrella header: include only what is used, as ATen/core/Tensor.h, which `driver check --headers` finds, or "
    "headers of torch/csrc/stable/."
)
_SOURCE, _COMPILER = "the source itself", "the compiler and its command line"
_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """A part of a preprocessed text.

    Attributes:
        name: the header through which it is included, as in an `#include`; a description for other parts.
        lines: the number of lines without line markers.
        size: the size in bytes.
        percent: the share of the text's lines.
    """

    name: str
    lines: int
    size: int
    percent: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The origins of a preprocessed text.

    Attributes:
        lines: the number of lines without line markers.
        size: the size in bytes.
        source: the part from the source itself.
        compiler: the part from the compiler and its command line, such as cuda_runtime.h.
        headers: the five largest headers that the source includes directly, each with all its own includes.
        advice: advice on an umbrella header of torch with more than half of the lines; else empty.
    """

    lines: int
    size: int
    source: Amount
    compiler: Amount
    headers: tuple[Amount, ...]
    advice: str


def ptx_code(text: bytes) -> bytes:
    """PTX without comments, its `.target` and surrounding blanks: equal for architectures with the same code."""
    return b"\n".join(line.strip() for line in _PTX.sub(rb"\1", text).splitlines() if line.strip())


def header_share(text: bytes, source: str) -> Share:
    """The origins of a preprocessed text, from its line markers (`# 12 "file" flags`).

    An indirect include counts for the first header included directly by the source that leads to it.

    Args:
        text: the output of clang or gcc -E.
        source: path of the source within the project.
    """
    stack: list[str] = []
    found: dict[tuple[str, ...], list[int]] = {}
    at = 0
    for marker in [*_MARKER.finditer(text), None]:
        end = marker.start() if marker else len(text)
        # The source, `<built-in>` or another entry that is not a file, or a header that the source includes.
        amount = found.setdefault(tuple(stack[1:2]), [0, 0])
        amount[0] += text.count(b"\n", at, end) + (marker is None and end > at and not text.endswith(b"\n"))
        amount[1] += end - at
        if marker:
            at = marker.end()
            _follow(stack, re.sub(rb"\\(.)", rb"\1", marker[1]).decode(errors="replace"), marker[2].split())
    root = stack[0].removesuffix(source) if stack and stack[0].endswith(source) else ""
    named: dict[str, list[int]] = {_SOURCE: [0, 0], _COMPILER: [0, 0]}
    for way, amount in found.items():
        name = _spelled(way[0], root) if way else _SOURCE
        sums = named.setdefault(_COMPILER if name.startswith("<") else name, [0, 0])
        sums[:] = [total + other for total, other in zip(sums, amount, strict=True)]
    lines, size = (sum(sums[i] for sums in named.values()) for i in (0, 1))
    own, compiler, *headers = (
        Amount(name=name, lines=n, size=m, percent=round(100 * n / lines, 1) if lines else 0.0)
        for name, (n, m) in named.items()
    )
    headers.sort(key=lambda header: (-header.lines, -header.size, header.name))
    umbrella = headers and headers[0].name in _UMBRELLAS and 2 * headers[0].lines > lines
    advice = f"{headers[0].name} {_ADVICE}" if umbrella else ""
    headers = headers[:_SHOWN]
    return Share(lines=lines, size=size, source=own, compiler=compiler, headers=tuple(headers), advice=advice)


def _follow(stack: list[str], name: str, flags: Sequence[bytes]) -> None:
    """Apply a line marker to the stack of open files, the source first: 1 enters a file, 2 returns to one."""
    if not stack or b"1" in flags or (name.startswith("<") and name not in stack):
        stack.append(name)
    elif b"2" in flags or name == stack[0]:
        # The current file is left in any case: a header may include itself. A `#line` may have renamed the other.
        del stack[max(1, len(stack) - 1) :]
        while name in stack and stack[-1] != name:
            stack.pop()


def _spelled(path: str, root: str) -> str:
    """A header as in an `#include`: relative to the project, or to its include directory."""
    if root and path.startswith(root):
        return path.removeprefix(root)
    return re.sub(r"^(c\+\+/[^/]+|cccl)/", "", path.rpartition("/include/")[2])
