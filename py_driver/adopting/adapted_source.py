"""A source of a setup.py project for a kernel: registrations of ops instead of bindings, no Python headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.bound_functions import blocks_of
from py_driver.adopting.cpp_code import Code
from py_driver.adopting.losses import Loss, line_of
from py_driver.adopting.op_binding import CONVERSIONS, make_op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_driver.adopting.bound_functions import Block, Bound
    from py_driver.adopting.op_binding import Op

_EXTENSION: Final = re.compile(r"^(?P<before>[ \t]*#[ \t]*include[ \t]*)<torch/(?:extension|python)\.h>", re.MULTILINE)
_PYBIND: Final = re.compile(
    r"^[ \t]*(?:#[ \t]*include[ \t]*<pybind11/[^>]*>|namespace[ \t]+\w+[ \t]*=[ \t]*(?:::)?pybind11[ \t]*;"
    r"|using[ \t]+namespace[ \t]+pybind11(?:::literals)?[ \t]*;)[ \t]*$",
    re.MULTILINE,
)
_ALIAS: Final = re.compile(r"\bnamespace\s+(?P<name>\w+)\s*=\s*(?:::)?pybind11\s*;")
_LIBRARY: Final = re.compile(
    r"\bTORCH_LIBRARY(?P<kind>|_IMPL|_FRAGMENT)\s*\(\s*(?P<namespace>\w+)\s*,(?P<rest>[^{};]*)\)\s*(?=\{)"
)
_OWN: Final = "TORCH_EXTENSION_NAME"
_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n", re.MULTILINE)
_IMPL: Final = "TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeImplicitAutograd, ops)"


class Adapted(NamedTuple):
    """An adapted source.

    Attributes:
        text: the adapted text.
        ops: the ops that it implements, in order.
        functions: the ops that are functions of a Python module.
        values: other names of the module, with their C++ values.
        doc: the documentation of the module.
        namespaces: former namespaces of ops that are now in the kernel's own.
        libraries: the number of TORCH_LIBRARY and TORCH_LIBRARY_FRAGMENT in it.
        registers: whether it registers ops in the kernel's namespace.
        losses: the parts that are not carried over.
    """

    text: str
    ops: tuple[Op, ...] = ()
    functions: tuple[Op, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    doc: str = ""
    namespaces: tuple[str, ...] = ()
    libraries: int = 0
    registers: bool = False
    losses: tuple[Loss, ...] = ()


def adapt(path: str, text: str, others: Sequence[str], op_name: Callable[[Bound], str], *, first: bool) -> Adapted:
    """Adapt a source or header for a kernel; only its binding to Python changes.

    Args:
        path: its path, for losses.
        text: its text.
        others: the texts that it includes.
        op_name: returns the op's name for a bound function.
        first: whether its TORCH_LIBRARY may be the kernel's single one.
    """
    source = Code(text)
    blocks = blocks_of(source, path)
    included = [Code(other) for other in others] if blocks else []
    ops: list[Op] = []
    functions: list[Op] = []
    losses = [loss for block in blocks for loss in block.losses]
    edits: list[tuple[int, int, str]] = []
    for block in blocks:
        implemented: dict[int, Op] = {}
        for function in block.functions:
            op = make_op(function, op_name(function), source, included)
            if isinstance(op, str):
                advice = "write it as an op by hand, with a wrapper of types that ops have"
                reason = f"the function `{function.name}` is not bound: {op}"
                losses.append(Loss(path, line_of(text, function.start), reason, advice))
            elif twin := next((other for other in (*ops, *implemented.values()) if other.name == op.name), None):
                if twin.schema == op.schema and _chosen_by_if(source, block):
                    implemented[function.start] = op
                    continue
                advice = "give it a unique name; the Python module can choose between the two"
                reason = f"the function `{function.name}` is bound more than once; the first is taken"
                losses.append(Loss(path, line_of(text, function.start), reason, advice))
            else:
                implemented[function.start] = op
        own = {op.name: op for op in implemented.values()}.values()
        ops += own
        functions += own if block.module else ()
        edits.append((block.start, block.end, _registered(source, block, implemented)))
    headers = [f"{CONVERSIONS}.h"] if any(op.converts for op in ops) else []
    edits += _without_python(source, blocks)
    libraries, names, more = _libraries(source, path, first=first)
    edits += libraries
    headers = ["registration.h", *headers] if ops or libraries else headers
    losses += more
    losses += _left(path, source, edits)
    adapted = _edited(text, edits)
    lines = [f'#include "{header}"\n' for header in headers if f'"{header}"' not in text]
    return Adapted(
        text=_with_includes(adapted, "".join(lines)),
        ops=tuple(ops),
        functions=tuple(functions),
        values=tuple(value for block in blocks for value in block.values),
        doc=next((block.doc for block in blocks if block.doc), ""),
        namespaces=tuple(
            dict.fromkeys(
                [*(bound.namespace for block in blocks for bound in block.functions if bound.namespace), *names]
            )
        ),
        libraries=sum(edit[2].startswith(("TORCH_LIBRARY_EXPAND", "TORCH_LIBRARY_FRAGMENT")) for edit in libraries),
        registers=bool(ops or libraries),
        losses=tuple(losses),
    )


def _chosen_by_if(source: Code, block: Block) -> bool:
    """Whether directives choose between functions of a block."""
    return re.search(r"^[ \t]*#[ \t]*(?:else|elif)", source.code[block.start : block.end], re.MULTILINE) is not None


def _registered(source: Code, block: Block, implemented: dict[int, Op]) -> str:
    """The replacement of a block: registrations, between the block's directives and comments."""
    if not implemented and not block.functions:
        return ""
    lines = [implemented[bound.start].implementation for bound in block.functions if bound.start in implemented]
    if not block.module:
        inside = "".join(f"  {line}\n" for line in lines)
        return f"{_IMPL} {{\n{inside}}}"
    text = ""
    at = source.code.index("{", block.start) + 1
    for start, end in block.statements:
        text += source.text[at:start]
        own = [
            implemented[bound.start].implementation
            for bound in block.functions
            if start < bound.start < end and bound.start in implemented
        ]
        text = text + "\n  ".join(own) if own else text.rstrip(" \t").removesuffix("\n")
        at = end
    return f"{_IMPL} {{{text}{source.text[at : block.end]}"


def _without_python(source: Code, blocks: Sequence[Block]) -> list[tuple[int, int, str]]:
    """The edits that remove headers of Python and pybind11."""
    edits = [
        (match.start(), match.end(), f"{match['before']}<torch/all.h>") for match in _EXTENSION.finditer(source.plain)
    ]
    edits += [(match.start(), match.end(), "") for match in _PYBIND.finditer(source.plain)]
    return [edit for edit in edits if not any(block.start <= edit[0] < block.end for block in blocks)]


def _libraries(source: Code, path: str, *, first: bool) -> tuple[list[tuple[int, int, str]], list[str], list[Loss]]:
    """The edits that move ops of TORCH_LIBRARY into the kernel's own namespace, the namespaces, and losses."""
    edits, names, losses = [], [], []
    for match in _LIBRARY.finditer(source.code):
        kind = match["kind"]
        if match["namespace"] == "aten":
            continue
        if kind == "" and not first:
            kind = "_FRAGMENT"
        first = first and match["kind"] != ""
        if kind == "_FRAGMENT":
            reason = "upstream's registration.h has no TORCH_LIBRARY_FRAGMENT_EXPAND; this project's has"
            advice = "to build with kernel-builder, define all ops in one TORCH_LIBRARY_EXPAND"
            losses.append(Loss(path, line_of(source.text, match.start()), reason, advice, missing=False))
        text = f"TORCH_LIBRARY{kind}_EXPAND({_OWN},{match['rest']}) "
        edits.append((match.start(), match.end(), text))
        if match["namespace"] != _OWN:
            names.append(match["namespace"])
    return edits, names, losses


def _left(path: str, source: Code, edits: Sequence[tuple[int, int, str]]) -> list[Loss]:
    """The remaining uses of pybind11."""
    aliases = {"pybind11", "py", *(match["name"] for match in _ALIAS.finditer(source.code))}
    uses = re.compile(rf"\b(?:{'|'.join(sorted(aliases))})\s*::|\bPYBIND11_\w+\s*\(")
    found = []
    for match in uses.finditer(source.code):
        if not any(start <= match.start() < end for start, end, _ in edits):
            shown = match[0].rstrip("( ")
            advice = "pass tensors and numbers instead: a kernel is for every Python, and pybind11 is for one"
            found.append(Loss(path, line_of(source.text, match.start()), f"`{shown}` is pybind11's", advice))
            break
    return found


def _edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _with_includes(text: str, lines: str) -> str:
    """Insert includes after a text's last unconditional include."""
    if not lines:
        return text
    plain = Code(text).plain
    end = depth = 0
    for match in re.finditer(r"^[ \t]*#[ \t]*(?P<name>\w+)[^\n]*\n?", plain, re.MULTILINE):
        depth += match["name"] in {"if", "ifdef", "ifndef"}
        depth -= match["name"] == "endif"
        if match["name"] == "include" and depth == 0:
            end = match.end()
    return text[:end] + lines + text[end:]
