"""A source rewritten for torch's stable ABI, as far as that is mechanical."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Span
from py_driver.inspecting.cpp_operands import calls, operand_end, operand_start
from py_driver.inspecting.stable_device import rewrite_guards, rewrite_streams
from py_driver.inspecting.stable_dispatch import rewrite_dispatch
from py_driver.inspecting.stable_includes import HELPER_LINES, foreign_includes, rewrite_includes, used_equivalents
from py_driver.inspecting.stable_ops import difference, ops_of
from py_driver.inspecting.stable_refusal import refusal
from py_driver.inspecting.stable_registration import left_registrations, rewrite_registrations
from py_driver.inspecting.stable_uses import alternatives, equivalents, stable_uses
from py_driver.plan.cpp_text import arguments, closing, line_of, masked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_driver.inspecting.stable_uses import Equivalent

_TEMPLATE: Final = r"\s*(<[\w:\s]*>)?\s*\("
_LIKE: Final = re.compile(r"(?<![\w:])(?:::)?(?:at|torch)::empty_like\s*\(")
_NEW: Final = re.compile(r"(?<![\w:])(?:::)?(?:at|torch)::(empty|zeros|ones|full)\s*\(")
_CONTIGUOUS: Final = re.compile(r"(?:(?:at|c10|torch)::MemoryFormat|torch::headeronly::MemoryFormat)::Contiguous")
_OPTIONS: Final = re.compile(r"\s*\.\s*options\(\)\s*(\.\s*dtype\s*\()?")
_CHECK: Final = re.compile(r"(?<!\w)(?:(?:STD_)?TORCH_CHECK|TORCH_INTERNAL_ASSERT|AT_ASSERTM?)\s*\(")
_SIZES: Final = re.compile(r"(?:\.|->)\s*(?:sizes|strides)\(\)\s*([=!]=)")
_SHOWN: Final = re.compile(r".*(?:\.|->)(?:sizes|strides|device)\(\)", re.DOTALL)
_USING: Final = re.compile(r"\busing\s+\Z")
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d*)?f?")
_COUNT: Final = re.compile(rf"{_NUMBER.pattern}|\w+(?:\.|->)(?:size\(-?\w+\)|numel\(\)|dim\(\))")
"""A value that a double represents exactly: a short number, or a number of elements."""

_ABS: Final = re.compile(r"(?<![\w:.>])(?<!std::)abs\s*\(")
_OVERLOADS: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(?:math|stdlib)\.h>", re.MULTILINE)
_DEVICE: Final = (".cu", ".cuh")
_TYPE: Final = re.compile(
    r"(?:at|c10|torch|torch::headeronly)::(?:k[A-Z]\w*|ScalarType::\w+)|.*\b(?:scalar_type|dtype)\(\)", re.DOTALL
)
_SHAPED: Final = (".view", ".reshape")
_SLOT: Final = re.compile(r"\{(self|template|\d)\}")


class LeftUse(NamedTuple):
    """A use that stays unchanged.

    Attributes:
        name: the name of the use, as in the table.
        span: its position in the rewritten source.
        reason: why it stays.
        instead: the usual alternative; empty if the table has none.
    """

    name: str
    span: Span
    reason: str
    instead: str


class Fixed(NamedTuple):
    """A rewritten source.

    Attributes:
        text: the new text.
        uses: the number of uses in the old text.
        left: the uses that stay unchanged, in the order of the text.
        since: the releases that introduced the parts of the stable ABI in the new text; empty if it uses none.
        refused: why the text cannot be understood, or which ops it would no longer register, if it is unchanged for
            that reason; else empty.
    """

    text: str
    uses: int
    left: Sequence[LeftUse]
    since: frozenset[str]
    refused: str


def fix_source(text: str, file: str, own: frozenset[str] = frozenset()) -> Fixed:
    """A source rewritten for the stable ABI; a source without uses and headers of torch is unchanged.

    Args:
        text: the source, with its own line endings.
        file: its path for messages.
        own: macros that other sources of the project define.
    """
    uses = [*stable_uses(text, file, own=own)]
    if refused := refusal(text, own) if uses or foreign_includes(text) else "":
        return Fixed(text, len(uses), [], frozenset(), refused)
    if not uses and not foreign_includes(text):
        return Fixed(text, 0, _left(text, file, own) if "torch::stable::" in text else [], _since(text), "")
    new = rewrite_registrations(text)
    new = _shown(new)
    for rewrite in (
        _compared,
        rewrite_guards,
        rewrite_streams,
        _like,
        _new,
        rewrite_dispatch,
        _functions,
        _methods,
        _names,
    ):
        new = rewrite(new)
    new = rewrite_includes(text, _names(new))
    if lost := difference(ops_of(text), ops_of(new)):
        return Fixed(text, len(uses), [], frozenset(), f"its registrations are not understood: {lost}")
    left = [*_left(new, file, own), *(_overloaded(new, file) if foreign_includes(text) else [])]
    return Fixed(new, len(uses), sorted(left, key=_position), _since(new), "")


def _since(text: str) -> frozenset[str]:
    """The releases that introduced the parts of the stable ABI in a text."""
    kept = (use for use in stable_uses(text, "", ported=True) if use.equivalent and use.equivalent.stable == use.name)
    methods = {use.equivalent.since for use in kept if use.equivalent}
    return frozenset(row.since for row in used_equivalents(text)) | methods


def _left(new: str, file: str, own: frozenset[str]) -> list[LeftUse]:
    """The remaining uses in a rewritten text."""
    left = [
        LeftUse(use.name, use.span, _reason(use.equivalent), use.instead)
        for use in stable_uses(new, file, ported=True, own=own)
        if (use.equivalent is None or use.equivalent.stable != use.name) and use.span.text not in HELPER_LINES
    ]
    lines = new.split("\n")
    for index, name, reason in left_registrations(new):
        line, column = line_of(new, index)
        left.append(LeftUse(name, Span(file, line, column, len(name), lines[line - 1]), reason, ""))
    return sorted(left, key=_position)


def _position(use: LeftUse) -> tuple[int, int]:
    return use.span.line, use.span.column


def _overloaded(new: str, file: str) -> list[LeftUse]:
    """The calls of `abs` in host code for which torch's headers may have provided an overload.

    Without <math.h> or <stdlib.h> the name is C's, which converts a float to int; nvcc has its own overloads.
    """
    plain = masked(new)
    if file.endswith(_DEVICE) or _OVERLOADS.search(new):
        return []
    reason = "which function it calls depends on the removed headers"
    lines = new.split("\n")
    places = [line_of(new, found.start()) for found in _ABS.finditer(plain)]
    spans = [Span(file, line, column, len("abs"), lines[line - 1]) for line, column in places]
    return [LeftUse("abs", span, reason, alternatives()["abs"]) for span in spans]


def _reason(row: Equivalent | None) -> str:
    if row is None:
        return "the stable ABI has no equivalent for it"
    if row.fix:
        return f"its name is not written out, or the name of `{row.stable}` differs behind a `using`"
    return f"these arguments are not those of `{row.stable}`"


def _replaced(text: str, pattern: re.Pattern[str], change: Callable[[list[str]], str | None]) -> str:
    """A text with changed calls, inner ones first."""
    for found, close, parts in calls(text, pattern):
        if (new := change(parts)) is not None:
            text = text[: found.start()] + new + text[close + 1 :]
            return _replaced(text, pattern, change)
    return text


def _shown(text: str) -> str:
    """Convert shapes and devices in messages to text: the stable ABI has no `<<` for them."""
    plain = masked(text)
    arrays = re.findall(r"\b(?:at|c10)::IntArrayRef\s+(\w+)", plain)
    edits = []
    for found in _CHECK.finditer(plain):
        close = closing(plain, found.end() - 1)
        for first, last in (arguments(plain, found.end(), close) or [])[1:] if close is not None else []:
            part = text[first:last]
            is_operand = operand_end(plain, first) == last
            if is_operand and (_SHOWN.fullmatch(part) or part in arrays):
                edits.append((first, last, f"stable_text({part})"))
    for first, last, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[last:]
    return text


def _compared(text: str) -> str:
    """Compare shapes by a method: the stable ABI has no `==` for them."""
    while True:
        plain = masked(text)
        for found in _SIZES.finditer(plain):
            start, end = operand_start(plain, found.start()), operand_end(plain, found.end())
            if start is None or end is None:
                continue
            left, right = text[start : found.start(1)].rstrip(), text[found.end() : end].strip()
            sign = "!" if found[1] == "!=" else ""
            text = f"{text[:start]}{sign}{left}.equals({right}){text[end:]}"
            break
        else:
            return text


def _like(text: str) -> str:
    """Rewrite `empty_like` with only a tensor, or for a dense result."""

    def change(parts: list[str]) -> str | None:
        if len(parts) == 1:
            return f"torch::stable::empty_like({parts[0]})"
        dense = len(parts) == 3 and parts[1] == "{}" and _CONTIGUOUS.fullmatch(parts[2])  # noqa: PLR2004
        return (
            f"torch::stable::new_empty({parts[0]}, {parts[0]}.sizes())" if dense and parts[0].isidentifier() else None
        )

    return _replaced(text, _LIKE, change)


def _new(text: str) -> str:
    """Rewrite `empty`, `zeros`, `ones` and `full` with the options of a tensor."""
    for found, close, parts in calls(text, _NEW):
        sizes, *values = parts[:-1] or [""]
        options = _options(parts[-1]) if len(values) == (found[1] == "full") else None
        if not options or not all(_COUNT.fullmatch(value) for value in values):
            continue
        tensor, dtype = options
        more = f", {dtype}" if dtype else ""
        kind = "zeros" if found[1] == "zeros" else "empty"
        new = f"torch::stable::new_{kind}({tensor}, {sizes}{more})"
        if filled := {"ones": ["1.0"], "full": values}.get(found[1]):
            new = f"torch::stable::fill_({new}, {filled[0]})"
        return _new(text[: found.start()] + new + text[close + 1 :])
    return text


def _options(argument: str) -> tuple[str, str] | None:
    """The tensor of `tensor.options()`, and the type of `tensor.options().dtype(type)`, or an empty text.

    None for anything else: further chained calls change other options.
    """
    plain = masked(argument)
    for found in _OPTIONS.finditer(plain):
        close = closing(plain, found.end() - 1) if found[1] else None
        end = found.end() if close is None else close + 1
        types = [] if close is None else arguments(plain, found.end(), close)
        if plain[end:].strip() or operand_end(plain, 0) != len(argument) or (found[1] and len(types or []) != 1):
            continue
        if operand_end(plain[: found.start()], 0) == found.start():
            return argument[: found.start()], argument[slice(*types[0])] if types else ""
    return None


def _functions(text: str) -> str:
    """Rewrite functions of torch whose row has a form for their number of arguments."""
    for name, row in equivalents().items():
        if row.calls and row.since and not name.startswith("."):
            pattern = re.compile(rf"(?<![\w:])(?:::)?{re.escape(name)}\s*\(")
            text = _replaced(text, pattern, lambda parts, row=row: _called(row, "", "", parts))  # type: ignore[misc]
    return text


def _methods(text: str) -> str:
    """Rewrite methods of tensors whose row has a form for their number of arguments."""
    rows = {name[1:]: row for name, row in equivalents().items() if row.calls and row.since and name.startswith(".")}
    if not re.search(r"\b(?:at|torch|stable)::Tensor\b", masked(text)):
        return text
    names = sorted({name.removesuffix("<>") for name in rows})
    pattern = re.compile(rf"\s*(\.|->)\s*(template\s+)?({'|'.join(map(re.escape, names))}){_TEMPLATE}")
    while True:
        plain = masked(text)
        for found in pattern.finditer(plain):
            start, close = operand_start(plain, found.start()), closing(plain, found.end() - 1)
            ranges = arguments(plain, found.end(), close) if close is not None else None
            row = rows.get(f"{found[3]}<>" if found[4] else found[3])
            if start is None or close is None or ranges is None or row is None:
                continue
            receiver = text[start : found.start()]
            receiver = f"*{receiver}" if found[1] == "->" else receiver
            parts = [text[slice(*argument)] for argument in ranges]
            new = _called(row, receiver, (found[4] or "").strip(), parts)
            if new and found[2]:
                new = new.replace(f"{found[1]}mutable_data_ptr<", f"{found[1]}template mutable_data_ptr<")
            if new is not None and new != text[start : close + 1]:
                text = text[:start] + new + text[close + 1 :]
                break
        else:
            return text


def _called(row: Equivalent, receiver: str, template: str, parts: list[str]) -> str | None:
    """A call of an equivalent; None if it has no form for the number of arguments."""
    if len(parts) >= len(row.calls) or not row.calls[len(parts)]:
        return None
    call = row.calls[len(parts)]
    if ("{template}" in call) != bool(template):
        return None
    if row.name in _SHAPED and _TYPE.fullmatch(parts[0]):
        return None
    if row.name.endswith("::full_like") and not _COUNT.fullmatch(parts[1]):
        return None
    if row.name == ".fill_" and not _NUMBER.fullmatch(parts[0]):
        return None
    if receiver.startswith("*"):
        call = call.replace("{self}.", f"{receiver[1:]}->")
    values = {"self": receiver, "template": template, **{str(number): part for number, part in enumerate(parts)}}
    # In one pass: `{1}` may also stand in an argument, as a list.
    return _SLOT.sub(lambda found: values[found[1]], call)


def _names(text: str) -> str:
    """Rewrite names that only need replacing."""
    rows = sorted((row for row in equivalents().values() if row.fix and row.since), key=lambda row: -len(row.name))
    for row in rows:
        if row.name.startswith("TORCH_LIBRARY") or row.name.endswith("::CUDAGuard"):
            continue  # they have their own arguments
        plain = masked(text)
        # The members of the other class are not those of the stable one.
        end = r"(?!\w|\s*::)" if row.name.endswith("::Tensor") else r"(?!\w)"
        is_renamed = row.name.split("::")[-1] != row.stable.split("::")[-1]
        for found in reversed([*re.finditer(rf"(?<![\w:])(?:::)?{re.escape(row.name)}{end}", plain)]):
            if is_renamed and _USING.search(plain, 0, found.start()):
                continue  # the short name would be missing
            text = text[: found.start()] + row.stable + text[found.end() :]
    return text
