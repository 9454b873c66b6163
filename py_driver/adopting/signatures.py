"""The signatures of C++ functions, from the text of their declarations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.cpp_code import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPECIFIERS: Final = re.compile(
    r"\b(?:static|inline|extern|virtual|constexpr|friend|__host__|__forceinline__|__inline__)\b"
    r"|\b__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]|^\s*template\s*<.*?>",
    re.DOTALL,
)
_EXPORT: Final = re.compile(r"\b[A-Z][A-Z0-9_]*\b\s*(?=\S)")
"""A macro in front of a result, such as `SCATTER_API`."""

_TYPE: Final = re.compile(r"[\w:]+[\w:<>,\s&]*")
_NOT_TYPES: Final = re.compile(r"\b(?:return|else|new|throw|delete|case|goto|co_return|using|typedef|if|while)\b")
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:[^\n\\]|\\[\s\S])*", re.MULTILINE)
_AFTER: Final = re.compile(r"\s*(?:noexcept\b|const\b|override\b)*\s*(?:->\s*(?P<result>[\w:<>,\s&]+?)\s*)?[{;]")
_PARAMETER: Final = re.compile(r"(?P<type>.*?[\s&>])(?P<name>[A-Za-z_]\w*)", re.DOTALL)
_ONLY_TYPES: Final = frozenset(("int", "long", "short", "char", "double", "unsigned", "signed"))
_LAMBDA: Final = re.compile(r"\[[^\]]*\]\s*(?P<parameters>\()?")


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: empty if it has none.
        type: the type, as written.
    """

    name: str
    type: str


class Signature(NamedTuple):
    """The signature of a function.

    Attributes:
        result: the type of its result, as written; empty if unknown.
        parameters: the parameters, in order.
    """

    result: str
    parameters: tuple[Parameter, ...]


def find_signatures(name: str, sources: Sequence[Code]) -> list[Signature]:
    """The different signatures of functions with a name.

    Args:
        name: the name without its namespace.
        sources: the texts to search; the first text with a declaration decides.
    """
    for source in sources:
        found = []
        code = _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source.code)
        for match in re.finditer(rf"(?<![\w.>])(?:\w+\s*::\s*)*{re.escape(name)}\s*\(", code):
            signature = _signature(Code(code), code, match)
            if signature is not None:
                found.append(signature)
        different = list({_types(signature): signature for signature in reversed(found)}.values())
        if different:
            return different
    return []


def _types(signature: Signature) -> tuple[str, ...]:
    """The types that distinguish overloads."""
    return tuple("".join(parameter.type.split()) for parameter in signature.parameters)


def _signature(source: Code, code: str, match: re.Match[str]) -> Signature | None:
    """The signature of a function at its name's position; None if it is a call."""
    end = source.end(match.end() - 1)
    after = _AFTER.match(code, end) if end > 0 else None
    if after is None:
        return None
    start = max((code.rfind(sign, 0, match.start()) for sign in ";{}"), default=-1) + 1
    result = " ".join(_SPECIFIERS.sub(" ", code[start : match.start()]).split())
    while (shorter := _EXPORT.sub("", result, count=1)) != result and _EXPORT.match(result):
        result = shorter
    if not result or not _TYPE.fullmatch(result) or _NOT_TYPES.search(result):
        return None
    stated = after["result"] if result == "auto" and after["result"] else result
    return Signature("" if stated == "auto" else stated, read_parameters(source, match.end(), end - 1))


def read_parameters(source: Code, start: int, end: int) -> tuple[Parameter, ...]:
    """The parameters between two brackets.

    Args:
        source: the text.
        start: the position behind the opening bracket.
        end: the position of the closing bracket.
    """
    texts = [source.code[first:last].partition("=")[0].strip() for first, last in source.parts(start, end)]
    return tuple(_parameter(" ".join(text.split())) for text in texts if text != "void")


def _parameter(text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    if match is None or match["name"] in _ONLY_TYPES or match["type"].split()[-1:] == ["const"]:
        return Parameter("", text)
    return Parameter(match["name"], match["type"].strip())


def read_lambda(source: Code, start: int, end: int, others: Sequence[Code]) -> Signature | None:
    """The signature of a lambda; an unstated result is taken from the single function that it calls.

    Args:
        source: the text.
        start: the start of the lambda.
        end: its end.
        others: further texts that may declare the called function.

    Returns:
        The signature; None if there is no lambda.
    """
    match = _LAMBDA.match(source.code, start, end)
    if match is None:
        return None
    parameters: tuple[Parameter, ...] = ()
    body = match.end()
    if match["parameters"]:
        closed = source.end(match.end() - 1)
        parameters, body = read_parameters(source, match.end(), closed - 1), closed
    opening = source.code.find("{", body, end)
    stated = source.code[body:opening].partition("->")[2].strip()
    if stated or opening < 0:
        return Signature(stated, parameters)
    inside = source.code[opening + 1 : source.end(opening) - 1].strip()
    if "return" not in inside:
        return Signature("void", parameters)
    call = re.fullmatch(r"return\s+(?:\w+\s*::\s*)*(?P<name>\w+)\s*\([^;]*\)\s*;", inside)
    found = find_signatures(call["name"], [source, *others]) if call else []
    results = {signature.result for signature in found}
    return Signature(results.pop() if len(results) == 1 else "", parameters)
