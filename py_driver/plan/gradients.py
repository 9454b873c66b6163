"""Ops that would cut gradients silently: ops without a registered backward, and without a comment that says so.

torch differentiates an op with the function that is registered for its key `Autograd`. Without it, a result counts as a
constant, and torch warns only for a result that the op returns, not for a tensor that it writes to:
https://docs.pytorch.org/docs/stable/library.html#torch.library.register_autograd
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Note
from py_driver.manifest.locate import Source
from py_driver.manifest.model import TORCH, values
from py_driver.manifest.text import is_small_file
from py_driver.plan.cpp_text import blanked, code_of
from py_driver.plan.op_registrations import registrations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from py_driver.plan.op_registrations import Registration, Registrations
    from py_driver.plan.project import Project

_FUNCTION = re.compile(r"\bFunction\s*<")
"""The base class of a class that computes gradients in C++, `torch::autograd::Function<Self>`."""

_STATEMENT = re.compile(r"\bautograd:[ \t]*none\b")
_BLOCK = re.compile(r"\bTORCH_LIBRARY\w*\s*\(|\bSTABLE_TORCH_LIBRARY\w*\s*\(")
_SHOWN = 3
"""The number of ops that a note names."""


class _Op(NamedTuple):
    """An op that the code declares: its file, its name, and the position of its schema."""

    path: str
    name: str
    start: int
    end: int


def gradient_notes(project: Project) -> list[Note]:
    """A note on the ops that cut gradients, if there are any; empty if the code does not show which do.

    An op is ignored if it cannot be differentiated, if it consists of other ops (`def` with a function), or if a
    comment at its `def` or its block contains `autograd: none`.

    Args:
        project: a checked project.
    """
    manifest = project.manifest
    if manifest.framework.table != TORCH:
        return []
    sources = (manifest.framework.src, *(kernel.src for kernel in manifest.kernels))
    names = (*(name for src in sources for name in values(src)), *_reached(project))
    texts = dict(_texts(project.directory, names))
    read = {path: registrations(text) for path, text in texts.items()}
    cut = [op for op in _declared(texts, read) if not _is_stated(texts[op.path], op.start, op.end)]
    if not cut or any(_FUNCTION.search(code_of(text)) for text in texts.values()):
        return []
    from py_driver.plan.registered_gradients import ALL, registered  # noqa: PLC0415  (most projects need no parser)

    known = registered(text for name, text in _texts(project.directory, project.python) if name.endswith(".py"))
    cut = [op for op in cut if op.name not in known]
    return [_note(project.directory, texts, cut)] if cut and ALL not in known else []


def _reached(project: Project) -> Iterator[str]:
    for reach in project.reach.values():
        yield from reach.files


def _texts(directory: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The texts of files of a project, by path; empty for files that cannot be read."""
    for name in dict.fromkeys(names):
        path = directory / name
        text = ""
        with suppress(OSError):
            if is_small_file(path):
                text = path.read_text(encoding="utf-8", errors="replace")
        yield name, text


def _declared(texts: Mapping[str, str], read: Mapping[str, Registrations]) -> list[_Op]:
    """The ops that the code declares and implements without registering anything for gradients.

    Empty if a macro, or a computed name, may register more than the text shows.
    """
    if not all(found.whole for found in read.values()):
        return []
    each = [(path, registration) for path, found in read.items() for registration in found.found]
    keys: dict[str, set[str]] = {}
    for _, registration in each:
        if registration.what == "impl":
            keys.setdefault(_name(registration), set()).add(registration.key)
    ops: dict[str, _Op] = {}
    for path, registration in each:
        name = _name(registration)
        if registration.what == "def" and registration.alone and _has_gradient(registration.text or ""):
            start = texts[path].rfind("def", 0, registration.start)
            ops.setdefault(name, _Op(path, name, start, registration.places[-1]))
    return [op for name, op in ops.items() if name in keys and not any(map(_differentiates, keys[name]))]


def _differentiates(key: str) -> bool:
    """Whether an implementation for a key serves gradients; without a key it may consist of other ops."""
    return not key or key.startswith(("Autograd", "CompositeImplicit"))


def _name(registration: Registration) -> str:
    return (registration.text or "").partition("(")[0].strip().rpartition("::")[2]


def _has_gradient(schema: str) -> bool:
    """Whether an op has tensors as arguments, and returns or writes to tensors."""
    arguments, _, returns = schema.rpartition("->")
    return "Tensor" in arguments and ("Tensor" in returns or "!" in arguments)


def _is_stated(text: str, start: int, end: int) -> bool:
    """Whether comments at a `def`, or at the block around it, state that there is no gradient."""
    blocks = [block.start() for block in _BLOCK.finditer(code_of(text), 0, start)]
    return _has_statement(text, start, end) or (bool(blocks) and _has_statement(text, blocks[-1], blocks[-1]))


def _has_statement(text: str, start: int, end: int) -> bool:
    """Whether a comment in the lines of a statement, or directly above it, contains the words."""
    code = blanked(text, "comment")
    first = text.rfind("\n", 0, start) + 1
    while first:
        above = text.rfind("\n", 0, first - 1) + 1
        if code[above:first].strip() or not text[above:first].strip():
            break
        first = above
    last = text.find("\n", end)
    found = _STATEMENT.finditer(text, first, len(text) if last < 0 else last)
    return any(not code[match.start()].strip() for match in found)


def _note(directory: Path, texts: Mapping[str, str], cut: list[_Op]) -> Note:
    """A note at the first of the ops."""
    names = [f"`{op.name}`" for op in cut[:_SHOWN]]
    more = len(cut) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    message = (
        f"no backward is registered for {listed}: a gradient ends there without an error; register one, refuse it, or "
        "write `// autograd: none` at the `def`"
    )
    op = cut[0]
    start = texts[op.path].index(op.name, op.start)
    return Note(
        message=message, span=Source(str(directory / op.path), texts[op.path]).span(start, start + len(op.name))
    )
