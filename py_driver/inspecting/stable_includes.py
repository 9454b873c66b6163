"""Includes of torch, replaced by those of its stable ABI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.inspecting.stable_uses import equivalents
from py_driver.plan.cpp_text import masked

if TYPE_CHECKING:
    from py_driver.inspecting.stable_uses import Equivalent

_INCLUDE: Final = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"]((?:ATen|c10|torch|caffe2)/[\w./-]+)[>\"][^\n]*(?:\n|\Z)", re.MULTILINE
)
_KEPT: Final = ("torch/csrc/stable/", "torch/headeronly/", "torch/csrc/inductor/aoti_torch/c/")
_CONDITION: Final = re.compile(r"^[ \t]*#[ \t]*(if|endif)", re.MULTILINE)
_INCLUDE_GUARD: Final = re.compile(r"[ \t]*#[ \t]*ifndef[ \t]+(\w+)\s*\n[ \t]*#[ \t]*define[ \t]+\1\b")
_ANY: Final = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*(?:\n|\Z)", re.MULTILINE)
_CUDA: Final = re.compile(r"(?:c10|ATen)/cuda/")
_RUNTIME: Final = "cuda_runtime_api.h"
_SHIM: Final = "torch/csrc/inductor/aoti_torch/c/shim.h"
_STANDARD: Final = {
    "algorithm": r"std::(?:min|max|sort|fill|copy|clamp)\b",
    "array": r"std::array\b",
    "cmath": r"std::(?:sqrt|exp|log|pow|abs|tanh|ceil|floor)\b",
    "cstdint": r"\bu?int(?:8|16|32|64)_t\b",
    "optional": r"std::(?:optional|nullopt)\b",
    "string": r"std::(?:string|to_string)\b",
    "tuple": r"std::(?:tuple|tie|make_tuple)\b",
    "vector": r"std::vector\b",
}
"""The names that torch's headers provide indirectly, with their headers."""

_SHAPE: Final = """\
[[maybe_unused]] static std::string stable_text(torch::headeronly::IntHeaderOnlyArrayRef values) {
  std::string text = "[";
  for (const auto value : values) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  }
  return text + "]";
}
"""
_DEVICE: Final = """\
[[maybe_unused]] static std::string stable_text(const torch::stable::Device& device) {
  const auto type = device.type();
  const std::string name = type == torch::headeronly::DeviceType::CPU    ? "cpu"
                           : type == torch::headeronly::DeviceType::CUDA ? "cuda"
                                                                         : std::to_string(static_cast<int>(type));
  return device.index() < 0 ? name : name + ":" + std::to_string(device.index());
}
"""
HELPER_LINES: Final = frozenset((_SHAPE + _DEVICE).split("\n"))
"""Generated lines, which are not the author's."""


def foreign_includes(text: str) -> list[re.Match[str]]:
    """The includes of torch's headers that are not of its stable ABI."""
    plain = masked(text)
    return [
        match
        for match in _INCLUDE.finditer(text)
        if not match[1].startswith(_KEPT) and plain[match.start() : match.end()].lstrip().startswith("#")
    ]


def rewrite_includes(old: str, new: str) -> str:
    """A text with the headers that it needs instead of torch's others.

    The headers replace the first of the others, in front of the condition around it; headers of c10 and ATen for CUDA
    under a condition are replaced by CUDA's runtime header, which they include.

    Args:
        old: the original source.
        new: the source with everything else rewritten.
    """
    found = foreign_includes(new)
    if not found and new == old:
        return new
    newline = "\r\n" if "\r\n" in new else "\n"
    helper = _helper(new)
    wanted = _wanted(helper + new)
    present = {
        re.split(r"[<\">]", match[0])[1] for match in _ANY.finditer(new) if match not in found and "<" in match[0]
    }
    present = {name for name in present if not any(match[1] == name for match in found)}
    standard = (
        [name for name, pattern in _STANDARD.items() if re.search(pattern, masked(helper + new))] if found else []
    )
    runtime = any(_CUDA.match(match[1]) for match in found) and _RUNTIME not in present
    at = _outside(new, found[0].start()) if found else _outside(new, _first_include(new))
    shared = [name for name in wanted if name not in present]
    conditional = {match.start() for match in found if _outside(new, match.start()) != match.start()}
    edits = [(match.start(), match.end(), "") for match in found]
    if runtime:
        first = next(match for match in found if _CUDA.match(match[1]))
        if first.start() in conditional:
            edits = [
                (start, end, _lines([_RUNTIME], newline) if start == first.start() else "") for start, end, _ in edits
            ]
        else:
            shared.append(_RUNTIME)
    block = _lines(shared, newline)
    own = [name for name in standard if name not in present]
    if own:
        block += newline + _lines(own, newline)
        if not new[found[-1].end() :].startswith(("\n", "\r\n")) and at == found[0].start():
            block += newline
    for start, end, text in sorted(edits, reverse=True):
        new = new[:start] + text + new[end:]
    new = new[:at] + block + new[at:]
    return _with_helper(new, helper.replace("\n", newline)) if helper else new


def _helper(text: str) -> str:
    """The functions that messages need, if the text lacks them."""
    plain = masked(text)
    if not re.search(r"\bstable_text\(", plain) or re.search(r"std::string stable_text\(", plain):
        return ""
    device = re.search(r"stable_text\((?:[^()]|\(\))*device\(\)\)", plain)
    shape = re.search(r"stable_text\((?!(?:[^()]|\(\))*device\(\)\))", plain)
    return (_SHAPE if shape else "") + (_DEVICE if device else "")


def used_equivalents(text: str) -> list[Equivalent]:
    """The equivalents except methods that a text uses."""
    plain = masked(text)
    rows = (row for row in equivalents().values() if row.since and not row.stable.startswith("."))
    return [row for row in rows if re.search(rf"(?<!\w){_stem(row.stable)}\b", plain)]


def _wanted(text: str) -> list[str]:
    """The headers that a text needs, in order."""
    plain = masked(text)
    headers = {row.header for row in used_equivalents(text) if "/" in row.header}
    headers |= {"torch/csrc/stable/library.h"} if "STABLE_TORCH_LIBRARY" in plain else set()
    headers |= {_SHIM} if "aoti_torch_" in plain else set()
    headers |= {"torch/csrc/stable/device.h"} if "stable::Device&" in plain else set()
    return sorted(headers)


def _stem(stable: str) -> str:
    return re.escape(re.split(r"[(<]", stable)[0])


def _lines(names: list[str], newline: str) -> str:
    return "".join(f"#include <{name}>{newline}" for name in names)


def _first_include(text: str) -> int:
    found = _ANY.search(text)
    return found.start() if found else 0


def _outside(text: str, index: int) -> int:
    """The start of the outermost condition around an index; the index itself outside of conditions.

    An include guard does not count.
    """
    stack: list[int] = []
    for found in _CONDITION.finditer(masked(text), 0, index):
        if found[1] == "if":
            stack.append(found.start())
        elif stack:
            stack.pop()
    if stack and _INCLUDE_GUARD.match(text, stack[0]):
        stack = stack[1:]
    return stack[0] if stack else index


def _with_helper(text: str, helper: str) -> str:
    """A text with functions behind its last include, outside of conditions."""
    end = 0
    for found in _ANY.finditer(text):
        end = found.end()
    depth = 0
    for found in _CONDITION.finditer(masked(text)):
        if found.start() >= end and depth == 0:
            break
        depth += 1 if found[1] == "if" else -1
        if found[1] == "endif" and depth == 0:
            end = max(end, text.find("\n", found.start()) + 1)
        if found[1] == "if" and depth == 1 and _INCLUDE_GUARD.match(text, found.start()):
            depth = 0
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{text[:end]}{newline}{helper}{text[end:]}"
