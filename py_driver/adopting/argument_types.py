"""Types of C++ functions as types of torch's ops: their spelling in a schema, and conversions.

Source for the types of ops: aten/src/ATen/core/op_registration and c10's IValue (torch 2.4 to 2.15).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN: Final = {
    **dict.fromkeys(("Tensor", "Variable"), ("Tensor", "at::Tensor", True)),
    "bool": ("bool", "bool", True),
    **dict.fromkeys(("int64_t", "long"), ("int", "int64_t", True)),
    "double": ("float", "double", True),
    "float": ("float", "double", False),
    **dict.fromkeys(
        (
            *("int", "signed", "unsigned", "unsigned int", "short", "unsigned short", "unsigned long", "long int"),
            *("long long", "unsigned long long", "long long int", "signed int", "short int"),
            *("int8_t", "int16_t", "int32_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "size_t", "ptrdiff_t"),
            *("uintptr_t", "intptr_t", "unsigned char", "signed char"),
        ),
        ("int", "int64_t", False),
    ),
    "string": ("str", "std::string", True),
    **dict.fromkeys(("ScalarType", "Dtype"), ("ScalarType", "at::ScalarType", True)),
    "Device": ("Device", "at::Device", True),
    "Scalar": ("Scalar", "at::Scalar", True),
    "Generator": ("Generator", "at::Generator", True),
    "TensorList": ("Tensor[]", "at::TensorList", True),
    "IntArrayRef": ("int[]", "at::IntArrayRef", True),
}
"""For each name without its namespace: the type in a schema, the C++ type of an op, and whether that is the same."""

_SCOPES: Final = re.compile(r"\b(?:at|torch|c10|std|autograd)\s*::\s*|^::\s*")
_TEMPLATE: Final = re.compile(r"(?P<name>\w+)\s*<(?P<inner>.*)>", re.DOTALL)
_QUALIFIERS: Final = re.compile(r"\b(?:const|constexpr|struct|typename)\b")


class ArgumentType(NamedTuple):
    """A C++ type and its type in an op.

    Attributes:
        schema: the type in a schema.
        cpp: the C++ type that the op accepts or returns.
        own: the C++ type of the function, without `const` and `&`.
        same: whether both are the same.
        written: whether the function may write to it: a reference without `const`.
    """

    schema: str
    cpp: str
    own: str
    same: bool
    written: bool = False


def read_type(text: str, resolve: Callable[[str], str]) -> ArgumentType | None:
    """The type of an op's argument for a C++ type; None if there is no such type.

    Args:
        text: the type in C++.
        resolve: returns the type behind an alias of the project; empty if it is not an alias.
    """
    reference = text.rstrip().endswith("&")
    written = reference and not _QUALIFIERS.search(text.partition("<")[0]) and not text.rstrip().endswith("&&")
    own = " ".join(_QUALIFIERS.sub(" ", text.replace("&", " ") if reference else text).split())
    found = _named(own, resolve)
    return found._replace(written=written, own=own) if found else None


def _named(own: str, resolve: Callable[[str], str]) -> ArgumentType | None:
    name = _SCOPES.sub("", own).strip()
    if name in _PLAIN:
        schema, cpp, same = _PLAIN[name]
        return ArgumentType(schema, cpp, own, same)
    if match := _TEMPLATE.fullmatch(name):
        return _of_template(match["name"], match["inner"], own, resolve)
    if re.fullmatch(r"[\w:]+", own) and (meaning := resolve(own.rpartition("::")[2])) and meaning != own:
        return _named(" ".join(meaning.split()), lambda _: "")
    return None


def _of_template(name: str, inner: str, own: str, resolve: Callable[[str], str]) -> ArgumentType | None:
    element = read_type(inner, resolve)
    if element is None or element.written:
        return None
    if name == "optional" and not element.schema.endswith("?"):
        return ArgumentType(f"{element.schema}?", f"std::optional<{element.cpp}>", own, element.same)
    if name in {"vector", "List", "ArrayRef"} and "[" not in element.schema:
        if name != "vector" and not element.same:
            return None
        kind = {"vector": "std::vector", "List": "c10::List", "ArrayRef": "at::ArrayRef"}[name]
        return ArgumentType(f"{element.schema}[]", f"{kind}<{element.cpp}>", own, element.same)
    return None


def read_result(text: str, resolve: Callable[[str], str]) -> ArgumentType | None:
    """The type of an op's result for a C++ type; None if there is no such type.

    Args:
        text: the type in C++.
        resolve: see `read_type`.
    """
    own = " ".join(_QUALIFIERS.sub(" ", text.replace("&", " ")).split())
    if own == "void":
        return ArgumentType("()", "void", own, same=True)
    match = _TEMPLATE.fullmatch(_SCOPES.sub("", own))
    if match and match["name"] in {"tuple", "pair"}:
        elements = [read_type(part, resolve) for part in split_types(match["inner"])]
        found = [element for element in elements if element is not None]
        if len(found) < len(elements):
            return None
        schema = ", ".join(element.schema for element in found)
        cpp = f"std::tuple<{', '.join(element.cpp for element in found)}>"
        same = match["name"] == "tuple" and all(element.same for element in found)
        return ArgumentType(f"({schema})", cpp, own, same)
    found_type = read_type(own, resolve)
    return found_type._replace(same=found_type.same and "&" not in text) if found_type else None


def split_types(text: str) -> list[str]:
    """Split types at commas outside of `<>`."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]
