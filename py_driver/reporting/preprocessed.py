"""What the text between two actions of a compiler says: which headers preprocessed sources come from, and PTX as code.

Nothing is read or written here.
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
        name: the header that it comes in through, as an `#include` would name it; for what else there is, words.
        lines: how many; line markers do not count.
        size: in bytes.
        percent: of the lines of the text.
    """

    name: str
    lines: int
    size: int
    percent: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Where a preprocessed text comes from.

    Attributes:
        lines: of the text; line markers do not count.
        size: in bytes.
        source: what stands in the source itself.
        compiler: what the compiler and its command line put in front, such as cuda_runtime.h.
        headers: of the headers that the source includes directly, the five that bring most, with all that they include.
        advice: what to do about one of torch's umbrella headers with more than half of the lines; else empty.
    """

    lines: int
    size: int
    source: Amount
    compiler: Amount
    headers: tuple[Amount, ...]
    advice: str


def ptx_code(text: bytes) -> bytes:
    """PTX without comments, its `.target` and blanks around lines: equal for architectures that get the same code."""
    return b"\n".join(line.strip() for line in _PTX.sub(rb"\1", text).splitlines() if line.strip())


def header_share(text: bytes, source: str) -> Share:
    """Where a preprocessed text comes from, by its line markers (`# 12 "file" flags`).

    What a header includes counts for the header that the source itself includes, the first one that does.

    Args:
        text: what clang or gcc -E writes.
        source: path of the source within the project.
    """
    stack: list[str] = []
    found: dict[tuple[str, ...], list[int]] = {}
    at = 0
    for marker in [*_MARKER.finditer(text), None]:
        end = marker.start() if marker else len(text)
        # The source, `<built-in>` or another thing that is no file, or a header that the source includes.
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
    """Do to the files that are open, the source first, what a line marker says: 1 enters a file, 2 returns to one."""
    if not stack or b"1" in flags or (name.startswith("<") and name not in stack):
        stack.append(name)
    elif b"2" in flags or name == stack[0]:
        # The file that is left goes in any case: a header may include itself. A `#line` may have renamed the other.
        del stack[max(1, len(stack) - 1) :]
        while name in stack and stack[-1] != name:
            stack.pop()


def _spelled(path: str, root: str) -> str:
    """A header as an `#include` would name it: within the project, or below the include directory that it is in."""
    if root and path.startswith(root):
        return path.removeprefix(root)
    return re.sub(r"^(c\+\+/[^/]+|cccl)/", "", path.rpartition("/include/")[2])
