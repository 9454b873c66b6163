"""Registrations with torch, rewritten for its stable ABI: implementations get their own blocks."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from py_driver.plan.cpp_text import arguments, blanked, closing, masked

_BLOCK: Final = re.compile(r"(?<!\w)TORCH_LIBRARY(_IMPL|_FRAGMENT)?(_EXPAND)?\s*\(")
_STABLE_BLOCK: Final = re.compile(r"(?<!\w)STABLE_TORCH_LIBRARY(_IMPL|_FRAGMENT)?(_EXPAND)?\s*\(")
_KEY: Final = re.compile(r"(?:::)?(?:c10|at|torch)::(?:k(CUDA|CPU)|DispatchKey::(\w+))")
_FUNCTION: Final = re.compile(r"&?((?:::)?\w+(?:::\w+)*(?:<\w+>)?)|TORCH_FN\(\s*&?(\w+(?:::\w+)*)\s*\)")
_BOXED: Final = re.compile(r"TORCH_BOX\s*\(.*\)|\w+(?:::\w+)*(?:<[\w:, ]*>)?", re.DOTALL)
_LINE: Final = r"(?:[^\n\\]|\\\r?\n|\\)*"
_DIRECTIVE: Final = re.compile(rf"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|else|elif|endif)\b{_LINE}", re.MULTILINE)
_EMPTY: Final = re.compile(
    rf"^[ \t]*#[ \t]*if{_LINE}\n(?:[ \t\r]*\n|[ \t]*#[ \t]*(?:else|elif){_LINE}\n)*[ \t]*#[ \t]*endif[^\n]*\n",
    re.MULTILINE,
)
_OF_ARRAYS: Final = re.compile(r"\b(?:bool\s*\[\s*\d+\s*\]|complex\b)")
_OF_LISTS: Final = re.compile(r"\b(?:int|SymInt|float)\s*\[\s*\d+\s*\]")
_ARRAY: Final = re.compile(r"\bstd\s*::\s*array\s*<")
_EVERY_KEY: Final = "CompositeImplicitAutograd"
"""The key of a kernel that is registered without one."""


class Left(NamedTuple):
    """A registration that stays unchanged.

    Attributes:
        at: its position in the text.
        name: its name.
        reason: why it stays.
    """

    at: int
    name: str
    reason: str


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Statement(NamedTuple):
    start: int
    end: int
    line: str
    key: str


def rewrite_registrations(text: str) -> str:
    """A text with rewritten registrations; a block that cannot be understood stays unchanged."""
    at = 0
    while found := _BLOCK.search(masked(text), at):
        at = found.end()
        plain = masked(text)
        body = _body(plain, found)
        if body is None:
            continue
        names, start, end = body
        block = text[start:end]
        if found[1] == "_IMPL":
            new, tail = _implementations(block, text[slice(*names[-1])]), ""
        else:
            new, tail = _definitions(block, [text[slice(*name)] for name in names], found[2] or "")
        newline = "\r\n" if "\r\n" in text else "\n"
        tail = tail.replace("\r\n", "\n").replace("\n", newline)
        text = f"{text[: found.start()]}STABLE_{text[found.start() : start]}{new}}}{tail}{text[end + 1 :]}"
    return text


def left_registrations(text: str) -> list[Left]:
    """The calls in registrations for the stable ABI that it does not support."""
    plain = masked(text)
    has_arrays = _ARRAY.search(plain) is not None
    left = []
    for found in _STABLE_BLOCK.finditer(plain):
        body = _body(plain, found)
        if body is None:
            continue
        names, start, end = body
        module = text[slice(*names[-1])]
        block = text[start:end]
        for index, _, method, ranges in _calls(block, module):
            parts = [block[slice(*argument)] for argument in ranges]
            boxed = method == "impl" and len(parts) == 2 and _BOXED.fullmatch(parts[1])  # noqa: PLR2004
            if not boxed and not (method == "def" and len(parts) == 1):
                left.append(Left(start + index, f"{module}.{method}", _why(method)))
            elif method == "def" and (type_ := _unboxed(parts[0], has_arrays=has_arrays)):
                why = f"`TORCH_BOX` compiles for `{type_}`, and passes other bytes"
                left.append(Left(start + index, f"{module}.{method}", why))
    return left


def _body(plain: str, found: re.Match[str]) -> tuple[list[tuple[int, int]], int, int] | None:
    """The ranges of the arguments of a block's macro, and the range of the body."""
    line = plain[plain.rfind("\n", 0, found.start()) + 1 : found.start()]
    close = closing(plain, found.end() - 1)
    if line.strip() or close is None:
        return None
    body = re.compile(r"\s*\{").match(plain, close + 1)
    end = closing(plain, body.end() - 1) if body else None
    ranges = arguments(plain, found.end(), close)
    return (ranges, body.end(), end) if body and end is not None and ranges else None


def _implementations(block: str, module: str) -> str:
    """The body of a TORCH_LIBRARY_IMPL."""
    edits: list[_Edit] = []
    for _, _, method, ranges in _calls(block, module):
        function = _boxed(block[slice(*ranges[1])]) if len(ranges) == 2 else None  # noqa: PLR2004  (a name and a function)
        if method == "impl" and function:
            edits.append(_Edit(*ranges[1], function))
    return _edited(block, edits)


def _definitions(block: str, names: list[str], expand: str) -> tuple[str, str]:
    """The body of a TORCH_LIBRARY, and the blocks that follow it."""
    module = names[-1]
    edits: list[_Edit] = []
    statements: list[_Statement] = []
    for start, end, method, ranges in _calls(block, module):
        parts = [block[slice(*argument)] for argument in ranges]
        key, function, name = "", None, ""
        if method == "impl" and len(parts) in {2, 3}:
            function, name = _boxed(parts[-1]), parts[0]
            found = _KEY.fullmatch(parts[1])
            key = _EVERY_KEY if len(parts) == 2 else ((found[1] or found[2]) if found else "")  # noqa: PLR2004
        elif method == "def" and len(parts) == 2:  # noqa: PLR2004  (schema, function)
            function = _boxed(parts[1])
            schema = re.match(r'"([\w:]+(?:\.\w+)?)\(', parts[0])
            name, key = (f'"{schema[1]}"', _EVERY_KEY) if schema else ("", "")
        if not (key and function and name):
            continue
        statements.append(_Statement(start, end, f"{module}.impl({name}, {function});", key))
        edits.append(_Edit(ranges[0][1], ranges[1][1], "") if method == "def" else _Edit(*_line(block, start, end), ""))
    tail = _blocks(block, statements, f"STABLE_TORCH_LIBRARY_IMPL{expand}({names[0]}", module)
    edited = _edited(block, edits)
    return (_pruned(edited) if statements else edited), tail


def _calls(block: str, module: str) -> list[tuple[int, int, str, list[tuple[int, int]]]]:
    """The statements that call the module of a block: the range, the method, and the ranges of the arguments.

    A call inside of another statement is not understood: it has no arguments here.
    """
    plain = masked(block)
    found = []
    for match in re.finditer(rf"(?<![\w.>]){re.escape(module)}\s*\.\s*(\w+)\s*(?:<[^;()]*>)?\(", plain):
        close = closing(plain, match.end() - 1)
        end = re.compile(r"\s*;").match(plain, close + 1) if close is not None else None
        before = plain[: match.start()]
        own = before.count("{") == before.count("}") and re.search(r"(?:^|[;{}])\s*$", _no_directives(before))
        ranges = arguments(plain, match.end(), close) if close is not None and end and own else []
        found.append((match.start(), end.end() if end else match.end(), match[1], ranges or []))
    return found


def _no_directives(plain: str) -> str:
    return re.sub(rf"(?m)^[ \t]*#{_LINE}$", "", plain)


def _boxed(text: str) -> str | None:
    found = _FUNCTION.fullmatch(blanked(text, "comment").strip())
    return f"TORCH_BOX(&{found[1] or found[2]})" if found else None


def _unboxed(schema: str, *, has_arrays: bool) -> str:
    """The type in a schema that the stable ABI passes as raw bytes; empty without one.

    `ToImpl` of torch/csrc/stable/stableivalue_conversions.h copies the bytes of any unknown type, including
    `std::array` and `c10::complex`.
    """
    found = _OF_ARRAYS.search(schema) or (_OF_LISTS.search(schema) if has_arrays else None)
    return found[0] if found else ""


def _why(method: str) -> str:
    if method == "impl":
        return "its kernel or key is not a plain function or name"
    return "its schema is not written in place" if method == "def" else "the stable ABI has `def` and `impl` alone"


def _line(block: str, start: int, end: int) -> tuple[int, int]:
    """The range of a statement, with its lines if nothing else is on them."""
    first = block.rfind("\n", 0, start) + 1
    last = block.find("\n", end)
    if last >= 0 and not block[first:start].strip() and not block[end:last].strip():
        return first, last + 1
    return start, end


def _edited(block: str, edits: list[_Edit]) -> str:
    """A block after edits."""
    for edit in sorted(edits, reverse=True):
        block = block[: edit.start] + edit.text + block[edit.end :]
    return block


def _pruned(text: str) -> str:
    """A text without empty conditions."""
    while (shorter := _EMPTY.sub("", text)) != text:
        text = shorter
    return text


def _blocks(block: str, statements: list[_Statement], head: str, module: str) -> str:
    """The blocks that implement ops: one for statements of one key in a row, under the conditions of the body."""
    plain = masked(block)
    items = [(found.start(), "", block[slice(*found.span())].strip()) for found in _DIRECTIVE.finditer(plain)]
    items += [(statement.start, statement.key, statement.line) for statement in statements]
    lines: list[str] = []
    current = ""
    for _, key, line in sorted(items):
        if key != current and current:
            lines.append("}")
        if key and key != current:
            lines.append(f"{head}, {key}, {module}) {{")
        lines.append(f"  {line}" if key else line)
        current = key
    if current:
        lines.append("}")
    text = _pruned("\n".join(lines) + "\n")
    return "\n\n" + text.rstrip("\n") if statements else ""
