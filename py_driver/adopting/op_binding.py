"""A bound function as an op: its schema, its implementation in C++, and the function of the Python module."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.argument_types import read_result, read_type
from py_driver.adopting.cpp_code import string_of
from py_driver.adopting.signatures import find_signatures, read_lambda
from py_driver.plan.op_schema import schema_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from py_driver.adopting.argument_types import ArgumentType
    from py_driver.adopting.bound_functions import Argument, Bound
    from py_driver.adopting.cpp_code import Code
    from py_driver.adopting.signatures import Signature

CONVERSIONS: Final = "torch_binding"
"""The namespace and the header of the conversions of arguments and results."""

_NAME: Final = re.compile(r"&?\s*(?:::\s*)?(?P<scope>(?:\w+\s*::\s*)*)(?P<name>\w+)")
_NONE: Final = re.compile(r"(?:(?:\w+\s*::\s*)*(?:none\s*\(\s*\)|nullopt)|\{\s*\}|nullptr)")
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)(?P<suffix>[uUlL]*)")
_FLOAT: Final = re.compile(r"(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFlL]?")
_BOOLEANS: Final = {"true": "True", "false": "False"}
_WIDTH: Final = 118
_TAKEN: Final = ("ops", "function", CONVERSIONS)
"""Names that parameters in C++ must not shadow."""


class Op(NamedTuple):
    """A bound function as an op.

    Attributes:
        name: the name of the op.
        function: the name of the function in Python.
        schema: the schema of the op.
        implementation: C++ statements that register it with `ops`.
        python: the definition in Python, which calls `_ops`.
        converts: whether the implementation needs the header `CONVERSIONS`.
        silent: whether it returns nothing, and its schema marks no argument as written.
    """

    name: str
    function: str
    schema: str
    implementation: str
    python: str
    converts: bool
    silent: bool


class Parameter(NamedTuple):
    """A parameter of an op.

    Attributes:
        name: the name in the schema.
        variable: the name in C++.
        type: its type.
        default: the default in the schema; empty if it has none.
        value: the default in Python; empty if it has none.
        keyword: whether it is keyword-only.
    """

    name: str
    variable: str
    type: ArgumentType
    default: str = ""
    value: str = ""
    keyword: bool = False


def make_op(bound: Bound, name: str, source: Code, others: Sequence[Code]) -> Op | str:
    """Convert a bound function to an op; returns the reason as a text if that is not possible.

    Args:
        bound: the function.
        name: the name of the op.
        source: the text with the binding.
        others: the texts that it includes.
    """
    signature = _signature(bound, source, others)
    if isinstance(signature, str):
        return signature

    def resolve(alias: str) -> str:
        return _meaning(alias, (source, *others))

    result = read_result(signature.result, resolve)
    if result is None:
        return f"its result `{signature.result or 'auto'}` is not a type of an op"
    parameters = _parameters(bound, signature, resolve)
    if isinstance(parameters, str):
        return parameters
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    arguments = [_declared(parameter, letters) for parameter in parameters]
    if (first := _first_keyword(parameters)) is not None:
        arguments.insert(first, "*")
    schema = f"{name}({', '.join(arguments)}) -> {result.schema}"
    if problem := schema_problem(schema):
        return f"torch rejects the schema `{schema}`: {problem.message}"
    direct = result.same and all(_is_direct(parameter.type) for parameter in parameters)
    if direct and not bound.function.startswith("["):
        function = bound.function if bound.function.startswith("&") else f"&{bound.function}"
        implementation = f'ops.impl("{name}", {function});'
        converts = False
    else:
        implementation = _wrapper(bound, name, parameters, result)
        converts = f"{CONVERSIONS}::" in implementation
    silent = result.schema == "()" and not any(parameter.type.written for parameter in parameters)
    python = _python(bound, name, parameters)
    return Op(name, bound.name, schema, implementation, python, converts, silent)


def _signature(bound: Bound, source: Code, others: Sequence[Code]) -> Signature | str:
    if bound.function.startswith("["):
        found = read_lambda(source, bound.start, bound.end, others)
        return found or "its lambda is not understood"
    match = _NAME.fullmatch(bound.function)
    if match is None:
        return f"`{' '.join(bound.function.split())}` is not the name of a function"
    signatures = find_signatures(match["name"], (source, *others))
    if not signatures:
        return f"no declaration of `{match['name']}` was found in the project"
    if len(signatures) > 1:
        return f"`{match['name']}` is overloaded"
    return signatures[0]


def _meaning(alias: str, sources: Sequence[Code]) -> str:
    """The type behind an alias of the project; empty if there is no such alias, or several."""
    pattern = re.compile(
        rf"\busing\s+{alias}\s*=\s*(?P<using>[^;]+);|\btypedef\s+(?P<typedef>[^;]+?)\s*\b{alias}\s*;"
        rf"|^[ \t]*#[ \t]*define[ \t]+{alias}[ \t]+(?P<define>[\w:<>, ]+)",
        re.MULTILINE,
    )
    found = {
        " ".join((match[match.lastgroup or ""]).split()) for code in sources for match in pattern.finditer(code.code)
    }
    return found.pop() if len(found) == 1 else ""


def _parameters(bound: Bound, signature: Signature, resolve: Callable[[str], str]) -> list[Parameter] | str:
    """The parameters of an op; the reason as a text if that is not possible."""
    named = bound.arguments
    if named and len(named) != len(signature.parameters):
        return f"it has {len(signature.parameters)} parameters, and the binding names {len(named)}"
    found: list[Parameter] = []
    for at, declared in enumerate(signature.parameters):
        kind = read_type(declared.type, resolve)
        if kind is None:
            return f"its parameter `{declared.type}` is not a type of an op"
        name = _free(named[at].name if named else declared.name or f"arg{at}", {parameter.name for parameter in found})
        variable = declared.name or f"arg{at}"
        hidden = _TAKEN if bound.function.startswith("[") else (*_TAKEN, *re.findall(r"\w+", bound.function))
        while variable in hidden:
            variable += "_"
        parameter = Parameter(name, variable, kind, keyword=bool(named) and named[at].keyword)
        if named and named[at].default is not None:
            values = _default(named[at], kind)
            if values is None:
                return f"the default `{named[at].default}` of `{name}` is not a value in a schema"
            parameter = parameter._replace(default=values[0], value=values[1])
        found.append(parameter)
    return found


def _first_keyword(parameters: Sequence[Parameter]) -> int | None:
    """The position of the first keyword-only parameter; None if there is none."""
    return next((at for at, parameter in enumerate(parameters) if parameter.keyword), None)


def _free(name: str, taken: set[str]) -> str:
    """A name that is valid in Python and schemas, and not taken."""
    while keyword.iskeyword(name) or name in taken or name == "_ops":
        name += "_"
    return name


def _default(argument: Argument, kind: ArgumentType) -> tuple[str, str] | None:
    """The default in a schema and in Python; None if it is not understood."""
    text = (argument.default or "").strip()
    plain = kind.schema.removesuffix("?")
    if _NONE.fullmatch(text):
        return ("None", "None") if kind.schema.endswith("?") else None
    if text in _BOOLEANS and plain == "bool":
        return _BOOLEANS[text], _BOOLEANS[text]
    if plain == "int" and (match := _INTEGER.fullmatch(text)):
        value = text.removesuffix(match["suffix"])
        octal = value.lstrip("+-").startswith("0") and value.lstrip("+-").isdigit()
        number = str(int(value, 8 if octal else 0))
        return number, number
    if plain == "float" and (match := _FLOAT.fullmatch(text)):
        number = repr(float(match["value"]))
        return number, number
    if plain == "str" and (string := string_of(text)) is not None and string.isprintable() and '"' not in string:
        return f'"{string}"', repr(string)
    return None


def _declared(parameter: Parameter, letters: Iterator[str]) -> str:
    """A parameter in a schema."""
    schema = parameter.type.schema
    if parameter.type.written and schema.startswith("Tensor"):
        schema = schema.replace("Tensor", f"Tensor({next(letters)}!)", 1)
    return f"{schema} {parameter.name}" + (f"={parameter.default}" if parameter.default else "")


def _is_direct(kind: ArgumentType) -> bool:
    """Whether torch itself can call a function with such a parameter."""
    return kind.same and (not kind.written or kind.schema == "Tensor")


def _wrapper(bound: Bound, name: str, parameters: Sequence[Parameter], result: ArgumentType) -> str:
    """The registration of a lambda that converts arguments and the result."""
    declared = ", ".join(f"{parameter.type.cpp} {parameter.variable}" for parameter in parameters)
    lines = []
    passed = []
    for parameter in parameters:
        text = parameter.variable
        if not parameter.type.same:
            text = f"{CONVERSIONS}::Argument<{parameter.type.own}>::from({text})"
            if parameter.type.written:
                lines.append(f"auto {parameter.variable}_own = {text};")
                text = f"{parameter.variable}_own"
        passed.append(text)
    called = bound.function.lstrip("& ")
    if bound.function.startswith("["):
        lines.append(f"const auto function = {bound.function};")
        called = "function"
    call = f"{called}({', '.join(passed)})"
    if not result.same and result.own != result.cpp and not _is_plain(result):
        call = f"{CONVERSIONS}::Result<{result.own}>::from({call})"
    lines.append(f"{'return ' if result.cpp != 'void' else ''}{call};")
    inside = "\n    ".join(lines)
    return f'ops.impl("{name}", []({declared}) -> {result.cpp} {{\n    {inside}\n  }});'


def _is_plain(result: ArgumentType) -> bool:
    """Whether a result is the op's type apart from a reference."""
    return result.cpp in {"at::Tensor", "int64_t", "double", "bool", "std::string"} and result.own.rpartition("::")[
        2
    ] in {
        "Tensor",
        "int64_t",
        "double",
        "bool",
        "string",
    }


def _python(bound: Bound, name: str, parameters: Sequence[Parameter]) -> str:
    """The function in Python. As with pybind, unnamed arguments are positional-only."""
    words = [f"{parameter.name}={parameter.value}" if parameter.value else parameter.name for parameter in parameters]
    if words and not bound.arguments:
        words.append("/")
    if (first := _first_keyword(parameters)) is not None:
        words.insert(first, "*")
    head = f"def {bound.name}({', '.join(words)}):"
    if len(head) > _WIDTH:
        head = f"def {bound.name}(\n    " + ",\n    ".join(words) + ",\n):"
    passed = ", ".join(
        f"{parameter.name}={parameter.name}" if parameter.keyword else parameter.name for parameter in parameters
    )
    doc = f"    {quoted(bound.doc)}\n" if bound.doc else ""
    return f"{head}\n{doc}    return _ops.{name}({passed})\n"


def quoted(doc: str) -> str:
    """A text as a docstring literal."""
    return '"""' + doc.replace("\\", "\\\\").replace('"', '\\"') + '"""'
