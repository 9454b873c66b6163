"""Functions that a source binds with PYBIND11_MODULE or torch::RegisterOperators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.cpp_code import string_of
from py_driver.adopting.losses import Loss, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.adopting.cpp_code import Code

_MODULE: Final = re.compile(r"\bPYBIND11_MODULE\s*\(\s*(?P<name>\w+)\s*,\s*(?P<parameter>\w+)\s*\)\s*(?P<body>\{)")
_REGISTRY: Final = re.compile(
    r"(?:\bstatic\s+)?(?:\bconst\s+)?(?:\b(?:auto|(?:torch|c10|at)\s*::\s*RegisterOperators)\s*&?\s*\w+\s*=?\s*)?"
    r"\b(?:torch|c10|at)\s*::\s*RegisterOperators\s*\(\s*\)"
)
_CALL: Final = re.compile(r"\s*\.\s*(?P<name>\w+)\s*\(")
_ARGUMENT: Final = re.compile(r'(?:\w+\s*::\s*)*arg\s*\(\s*"(?P<name>\w+)"\s*\)(?:\.noconvert\(\s*\w*\s*\))?')
_LITERAL: Final = re.compile(r'"(?P<name>\w+)"_a')
_WRAPPED: Final = re.compile(r"(?:torch\s*::\s*)?wrap_pybind_function(?:_no_gil)?\s*\(")
_HARMLESS: Final = re.compile(r"(?:\w+\s*::\s*)*(?:call_guard|return_value_policy|pos_only)\b")
_KEYWORDS: Final = re.compile(r"(?:\w+\s*::\s*)*kw_only\s*\(\s*\)")
_OP: Final = re.compile(r"(?P<namespace>\w+)::(?P<name>\w+)")


class Argument(NamedTuple):
    """An argument named in a binding.

    Attributes:
        name: its name.
        default: the default in C++; None if it has none.
        keyword: whether it is keyword-only.
    """

    name: str
    default: str | None
    keyword: bool


class Bound(NamedTuple):
    """A bound function.

    Attributes:
        name: the name in Python.
        function: the C++ expression.
        start: the start of that expression in the text.
        end: its end.
        arguments: the arguments named in the binding; empty if it names none.
        doc: its documentation.
        namespace: the former namespace of its op; empty for functions of a module.
    """

    name: str
    function: str
    start: int
    end: int
    arguments: tuple[Argument, ...] = ()
    doc: str = ""
    namespace: str = ""


class Block(NamedTuple):
    """A part of a source that binds functions, to be replaced by registrations of ops.

    Attributes:
        start: its start in the text.
        end: its end.
        functions: its functions, in order.
        values: other names of the module, with their C++ values.
        doc: the documentation of the module.
        losses: statements that are not understood.
        statements: start and end of each statement, in order; empty for registrations.
        module: whether it is a PYBIND11_MODULE.
    """

    start: int
    end: int
    functions: tuple[Bound, ...]
    values: tuple[tuple[str, str], ...] = ()
    doc: str = ""
    losses: tuple[Loss, ...] = ()
    statements: tuple[tuple[int, int], ...] = ()
    module: bool = True


def blocks_of(source: Code, path: str) -> list[Block]:
    """The parts of a source that bind functions.

    Args:
        source: the source.
        path: its path, for losses.
    """
    found = [_module_block(source, path, match) for match in _MODULE.finditer(source.code)]
    for match in _REGISTRY.finditer(source.code):
        statement = next(source.statements(match.end(), len(source.code)), None)
        if statement is not None:
            found.append(_registry_block(source, path, match, statement[1] + 1))
    return sorted(found, key=lambda block: block.start)


def _module_block(source: Code, path: str, match: re.Match[str]) -> Block:
    functions: list[Bound] = []
    values: list[tuple[str, str]] = []
    losses: list[Loss] = []
    doc = ""
    end = source.end(match.start("body"))
    statements = list(source.statements(match.end(), end - 1))
    for first, last in statements:
        text = source.text[first:last]
        head = re.match(rf"{match['parameter']}(?=\s*\.)", text)
        if head is None:
            if text.split()[:1] != ["namespace"] and not text.startswith(("using ", "(void)")):
                losses.append(_not_understood(source, path, first, text))
            continue
        at = first + head.end()
        while call := _CALL.match(source.code, at, last):
            closed = source.end(call.end() - 1)
            inside = source.parts(call.end(), closed - 1)
            if call["name"] == "def":
                bound = _defined(source, inside)
                functions += [bound] if bound else []
                losses += [] if bound else [_not_understood(source, path, first, text)]
            elif call["name"] == "attr" and (name := string_of(_text(source, inside[0]))):
                values.append((name, source.text[closed:last].partition("=")[2].strip()))
                closed = last
            elif call["name"] == "doc":
                doc = string_of(source.text[closed:last].partition("=")[2].strip()) or ""
                closed = last
            else:
                losses.append(_not_understood(source, path, first, text))
                closed = last
            at = closed
    spans = tuple((first, last + 1) for first, last in statements)
    return Block(match.start(), end, tuple(functions), tuple(values), doc, tuple(losses), spans)


def _not_understood(source: Code, path: str, start: int, text: str) -> Loss:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."  # noqa: PLR2004  (a line of a terminal)
    advice = "write it as an op in torch-ext/torch_binding.cpp, or in the Python module"
    return Loss(
        path, line_of(source.text, start), f"`{shown}` in PYBIND11_MODULE is not a function with torch's types", advice
    )


def _text(source: Code, span: tuple[int, int]) -> str:
    return source.text[span[0] : span[1]]


def _defined(source: Code, inside: list[tuple[int, int]]) -> Bound | None:
    """The function in a call of `def`; None if the call is not understood."""
    if len(inside) < 2:  # noqa: PLR2004  (a name and a function)
        return None
    name = string_of(_text(source, inside[0]))
    start, end = inside[1]
    if wrapped := _WRAPPED.match(source.code, start):
        start, end = wrapped.end(), source.end(wrapped.end() - 1) - 1
    arguments: list[Argument] = []
    doc, keyword = "", False
    for span in inside[2:]:
        text = _text(source, span).strip()
        match = _ARGUMENT.match(text) or _LITERAL.match(text)
        if match:
            default = text[match.end() :].strip()
            arguments.append(Argument(match["name"], default.removeprefix("=").strip() if default else None, keyword))
        elif (value := string_of(text)) is not None:
            doc = value
        elif _KEYWORDS.fullmatch(text):
            keyword = True
        elif not _HARMLESS.match(text):
            return None
    return Bound(name, source.text[start:end].strip(), start, end, tuple(arguments), doc) if name else None


def _registry_block(source: Code, path: str, match: re.Match[str], end: int) -> Block:
    functions: list[Bound] = []
    losses: list[Loss] = []
    at = match.end()
    while call := _CALL.match(source.code, at, end):
        at = source.end(call.end() - 1)
        inside = source.parts(call.end(), at - 1)
        name = _OP.fullmatch(string_of(_text(source, inside[0])) or "") if inside else None
        if call["name"] == "op" and name and len(inside) == 2:  # noqa: PLR2004  (a name and a function)
            start, last = inside[1]
            functions.append(
                Bound(name["name"], source.text[start:last].strip(), start, last, namespace=name["namespace"])
            )
        else:
            advice = "write it as an op in torch-ext/torch_binding.cpp"
            reason = "a registration of an op has more than its name and a function"
            losses.append(Loss(path, line_of(source.text, call.start()), reason, advice))
    return Block(match.start(), end, tuple(functions), losses=tuple(losses), module=False)


def namespaces(blocks: list[Block]) -> Iterator[str]:
    """The namespaces of ops that blocks register, without duplicates."""
    yield from dict.fromkeys(
        function.namespace for block in blocks for function in block.functions if function.namespace
    )
