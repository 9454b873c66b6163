"""Whether the Python files of a project find its extension modules by their paths instead of importing them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Span
from py_driver.publishing.skeleton import INFO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FINDERS: Final = (
    *("load_library", "LoadLibrary", "CDLL", "PyDLL", "dlopen", "load_dynamic", "load_module"),
    *("find_spec", "find_loader", "PathFinder", "FileFinder", "ExtensionFileLoader", "spec_from_file_location"),
)
"""Functions and classes that find a library by a name or a path instead of importing it."""

_SUFFIXES: Final = ("EXTENSION_SUFFIXES", "all_suffixes", "EXT_SUFFIX", "SHLIB_SUFFIX")
"""Names under which code finds the suffix of libraries; the last two are configuration variables."""

_FILE: Final = "__file__"
"""The path of a module: in a wheel of several variants it lies in another directory, without the project's files."""

_LIBRARY: Final = re.compile(r"([\w.*?\[\]{}-]*)\.so(\.\d+)*|([\w.*?\[\]{}-]*)\.pyd|\.abi3")
"""The last part of a text that names libraries."""

_PLAIN: Final = re.compile(r"[\w.]+")


class PathUse(NamedTuple):
    """An expression that finds a library by its path.

    Attributes:
        word: as written, e.g. `torch.ops.load_library`.
        span: its location; the file is a path in the wheel.
    """

    word: str
    span: Span


def find_path_use(files: Mapping[str, bytes], modules: Sequence[str]) -> PathUse | None:
    """The first place where Python files may find an extension module by its path; None if they import it.

    An expression counts unless its argument is a literal that names something else: `find_spec("triton")`. A file that
    cannot be parsed counts too.

    Args:
        files: the files of the wheel that setup.py made, by path.
        modules: the dotted names of the extension modules.
    """
    names = {part for module in modules for part in (module, module.rpartition(".")[2])}
    for path, content in sorted(files.items()):
        if path.endswith(".py") and not path.partition("/")[0].endswith(INFO):
            try:
                tree = ast.parse(content)
            except (SyntaxError, ValueError) as wrong:
                line = getattr(wrong, "lineno", None) or 1
                return PathUse("a text that is not Python", _span(path, content, line, 0))
            harmless = {
                id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_other(node, names)
            }
            for node in ast.walk(tree):
                if id(node) not in harmless and (word := _use(node, names)):
                    return PathUse(word, _span(path, content, node.lineno, node.col_offset))  # type: ignore[attr-defined]
    return None


def _span(path: str, content: bytes, line: int, column: int) -> Span:
    lines = content.decode("utf-8", "replace").splitlines()
    return Span(file=path, line=line, column=column + 1, text=lines[line - 1] if line <= len(lines) else "")


def _use(node: ast.AST, names: set[str]) -> str:
    """How a node finds a library by its path, as written; empty otherwise."""
    if isinstance(node, (ast.Attribute, ast.Name)) and _last(node) in {*_FINDERS, *_SUFFIXES}:
        return ast.unparse(node)
    if isinstance(node, ast.Attribute) and node.attr == _FILE and _last(node.value) in names:
        return ast.unparse(node)
    if isinstance(node, ast.alias) and node.asname and node.name.rpartition(".")[2] in {*_FINDERS, *_SUFFIXES}:
        return node.name
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = _LIBRARY.fullmatch(node.value.rpartition("/")[2])
        if node.value in {*_FINDERS, *_SUFFIXES} or (found and _may_mean(node.value, names)):
            return repr(node.value)
    return ""


def _is_other(call: ast.Call, names: set[str]) -> bool:
    """Whether a call's argument is a literal that names none of the modules."""
    first = call.args[0] if call.args else next((keyword.value for keyword in call.keywords), None)
    return isinstance(first, ast.Constant) and not _may_mean(str(first.value), names)


def _last(function: ast.expr) -> str:
    """The last part of a dotted name; empty for another expression."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _may_mean(text: str, names: set[str]) -> bool:
    """Whether a text may name a module or its library: it has the name, or is a pattern."""
    if not _PLAIN.fullmatch(text.rpartition("/")[2]) or text.startswith("."):
        return True
    words = re.split(r"\W+", text)
    return text in names or any(word in {name, f"lib{name}"} for word in words for name in names)
