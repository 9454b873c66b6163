"""Text of a source -> proposals of smaller headers instead of torch's umbrella headers, which may not compile. Pure."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.plan.cpp_text import code_of
from py_driver.plan.includes import scan
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CUDA: Final = "ATen/cuda/CUDAContext.h"
_LIBRARY: Final = "torch/library.h"
_TYPES: Final = "torch/types.h"  # includes it too

_LINE: Final = re.compile(
    r"(?P<before>[ \t]*)#[ \t]*include[ \t]*(?:<[^>\n]*>|\"[^\"\n]*\")(?P<after>(?:[^\n]*?[^\\\r\n])?)(?P<end>\r?)"
)
"""A line that can be rewritten: it contains the complete directive and nothing before it."""

_CONDITION: Final = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b((?:[^\n]|\\\n)*)", re.MULTILINE)
_DEFINITION: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_OF_THE_RULES: Final = frozenset({"NDEBUG", "TORCH_EXTENSION_NAME", "USE_CUDA", "USE_ROCM"})

_OPERATOR: Final = re.compile(r"\bat::([a-z]\w*?)(?:_out|_outf|_symint)?[ \t]*\(")
_OF_TORCH: Final = re.compile(r"\btorch::(\w+)|\busing\s+namespace\s+torch\b")

_DECLARED: Final = frozenset({"CppFunction", "Library", "class_", "dispatch", "headeronly", "init", "schema", "stable"})
"""Names behind `torch::` that need only the headers of single names."""


class Edit(NamedTuple):
    """The replacement of an include.

    Attributes:
        line: the line of the `#include`, from 1.
        header: the header that it includes.
        instead: the headers to include; empty if other lines of the file already include them.
    """

    line: int
    header: str
    instead: tuple[str, ...]


class _Facts(NamedTuple):
    """torch_headers.toml: the smaller headers of each umbrella header, and each header's names and macros."""

    umbrellas: Mapping[str, list[str]]
    torch: Mapping[str, list[str]]
    macros: Mapping[str, list[str]]
    cuda: Mapping[str, list[str]]


@cache
def _facts() -> _Facts:
    return _Facts(**tomllib.loads(resource("torch_headers.toml")))


def asked_macros(text: str) -> set[str]:
    """The macros that the `#if` lines of a text test, and that neither it nor a compiler defines.

    Args:
        text: the text of a source or header.
    """
    code = code_of(text)
    asked = {word for line in _CONDITION.findall(code) for word in re.findall(r"[A-Za-z_]\w*", line)}
    own = set(_DEFINITION.findall(code)) | {"defined", "true", "false", *_OF_THE_RULES}
    return {macro for macro in asked - own if not macro.startswith("_") and not macro.endswith("_KERNEL")}


def unknown_macro(macros: Iterable[str]) -> str:
    """The first macro whose header is unknown; empty if there is none.

    Args:
        macros: the tested macros.
    """
    known = [name for names in _facts().macros.values() for name in names]
    return next((macro for macro in sorted(macros) if not any(_is_in(name, [macro]) for name in known)), "")


def proposals(text: str, macros: Iterable[str] = ()) -> tuple[tuple[Edit, ...], ...]:
    """Replacements of a file's umbrella headers: several alternatives, the smallest first.

    An include inside an `#if` stays: the trial may not compile it.

    Args:
        text: the text of a source or header.
        macros: the macros that it, or a file that is compiled with it, tests; see `asked_macros`.

    Returns:
        The unique alternatives; empty if no line of the file is an include of an umbrella header.
    """
    needed = _by_name(_facts().macros, set(macros)) if macros else []
    lines, includes = text.split("\n"), scan(text)
    places = {include: text.count("\n", 0, include.start) for include in includes if include.path in _facts().umbrellas}
    umbrellas = [
        include for include, number in places.items() if _LINE.fullmatch(lines[number]) and not include.conditional
    ]
    if not umbrellas:
        return ()
    others = {include.path for include in includes if include not in umbrellas and not include.conditional}
    code = code_of(text)
    words = set(re.findall(r"\w+", code))
    choices = [_choices(umbrella.path, code, words) for umbrella in umbrellas]
    most = max(
        (len(choice) for choice, umbrella in zip(choices, umbrellas, strict=True) if umbrella.path != _CUDA), default=0
    )
    ways: dict[tuple[Edit, ...], None] = {}
    for cuda in (True, False):
        for level in range(most + cuda):  # the replacement of CUDAContext.h also by itself
            there = set(others)
            edits = []
            for umbrella, choice in zip(umbrellas, choices, strict=True):
                chosen = (
                    choice[0] if umbrella.path == _CUDA and cuda else choice[level] if level < len(choice) else None
                )
                if chosen is None or (umbrella.path == _CUDA and not cuda):
                    continue
                new = tuple(header for header in dict.fromkeys([*chosen, *needed]) if header not in there)
                there.update(new)
                edits.append(Edit(line=places[umbrella] + 1, header=umbrella.path, instead=new))
            if edits:
                ways[tuple(edits)] = None
    return tuple(ways)


def _choices(header: str, code: str, words: set[str]) -> list[list[str]]:
    """The possible replacements of an umbrella header, the smallest first."""
    facts = _facts()
    if header == _CUDA:
        return [_by_name(facts.cuda, words)]
    of_names = _by_name(facts.torch, words)
    of_torch = {name for name in _OF_TORCH.findall(code) if name not in _DECLARED}
    called = [name.removesuffix("_") for name in _OPERATOR.findall(code)]
    operators = [name for name in dict.fromkeys(called) if not _is_known(name)]
    found = [] if of_torch else [[*of_names, *(f"ATen/ops/{name}.h" for name in operators)]]
    for smaller in facts.umbrellas[header]:
        if smaller == _TYPES:
            found.append([smaller])
        elif not of_torch:
            found.append([smaller, *(header for header in of_names if header == _LIBRARY)])
    return found


def _by_name(headers: Mapping[str, list[str]], words: set[str]) -> list[str]:
    """The headers that declare one of the words, or that are always needed."""
    return [header for header, names in headers.items() if not names or any(_is_in(name, words) for name in names)]


def _is_in(name: str, words: Iterable[str]) -> bool:
    return any(word.startswith(name[:-1]) for word in words) if name.endswith("*") else name in words


def _is_known(name: str) -> bool:
    """Whether a header of single names declares a function of namespace `at`."""
    return any(_is_in(known, [name]) for headers in _facts()[1:] for names in headers.values() for known in names)


def rewritten(text: str, edits: Iterable[Edit]) -> str:
    """A text with edited includes; the rest of an `#include`'s line follows the last one.

    Args:
        text: the text that the edits were proposed for.
        edits: the edits, at most one for a line.
    """
    lines: list[str | None] = [*text.split("\n")]
    for edit in edits:
        if (found := _LINE.fullmatch(lines[edit.line - 1] or "")) is None:
            continue
        new = [f"{found['before']}#include <{header}>" for header in edit.instead]
        if new:
            new[-1] += found["after"]
        elif after := found["after"].strip():
            new = [found["before"] + after]
        lines[edit.line - 1] = f"{found['end']}\n".join(new) + found["end"] if new else None
    return "\n".join(line for line in lines if line is not None)
