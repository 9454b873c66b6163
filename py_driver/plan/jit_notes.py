"""Kernels in Triton that are compiled at their first call, since no aot.toml lists them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Note
from py_driver.manifest.ahead import AHEAD, FAMILIES
from py_driver.manifest.locate import Source
from py_driver.manifest.text import is_small_file

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from py_driver.plan.project import Project

_WORD = "triton"
_LAUNCHER = "_aot"
_SHOWN = 3
"""The number of kernels that a note names."""


class _Kernel(NamedTuple):
    """A function with `triton.jit`: its file, its dotted name in the package, its name, and its line."""

    path: str
    function: str
    name: str
    line: int


def jit_notes(project: Project) -> list[Note]:
    """A note on the kernels that Triton compiles at a user's first call, if there are any.

    A function that another function with `triton.jit` calls is not a kernel.

    Args:
        project: a checked project.
    """
    if not any(family in FAMILIES for family in project.manifest.built):
        return []
    listed = {function for target in project.triton for function in target.functions}
    texts = dict(_texts(project))
    notes = _unused(project, {function.rpartition(".")[0] for function in listed})
    found = [_kernels(path, text, project.python_root) for path, text in texts.items()]
    called = {name for _, names in found for name in names}
    kernels = [kernel for own, _ in found for kernel in own if kernel.name not in called]
    left = [kernel for kernel in kernels if kernel.function not in listed]
    if not left:
        return notes
    names = ", ".join(f"`{kernel.name}`" for kernel in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    message = (
        f"Triton compiles {names}{more} at a user's first call (1.0 to 1.4 s on an H100); list them in {AHEAD}, or "
        "record the list with `driver trace`"
    )
    first = left[0]
    source = Source(str(project.directory / first.path), texts[first.path])
    start = source.text.index(first.name, source.start(first.line))
    return [*notes, Note(message=message, span=source.span(start, start + len(first.name)))]


def _unused(project: Project, modules: set[str]) -> list[Note]:
    """A note on the modules of aot.toml that no file imports through the launcher, if there are any."""
    texts = [text for _, text in _texts(project, _LAUNCHER)]
    unused = [module for module in sorted(modules) if not any(_imports(text, module) for text in texts)]
    if not unused:
        return []
    source = Source(str(project.directory / AHEAD), (project.directory / AHEAD).read_text(encoding="utf-8"))
    message = (
        f"no file imports `{unused[0]}` through `{_LAUNCHER}`, so Triton still compiles its kernels; write "
        f"`from .{_LAUNCHER} import {unused[0].partition('.')[0]}`"
    )
    return [Note(message=message, span=source.span(0, 1))]


def _imports(text: str, module: str) -> bool:
    """Whether a file imports a module, or its package, through the launcher."""
    first, last = module.partition(".")[0], module.rpartition(".")[2]
    names = rf"(?:{re.escape(first)}|{re.escape(last)})\b"
    return bool(re.search(rf"{_LAUNCHER}(?:\.\w+)*\s+import\b[\s\w(,]*?\b{names}|{_LAUNCHER}\.(?:\w+\.)*{names}", text))


def _texts(project: Project, word: str = _WORD) -> Iterator[tuple[str, str]]:
    """The Python files that contain a word, with their texts."""
    for name in project.python:
        path = project.directory / name
        if name.endswith(".py") and is_small_file(path):
            text = path.read_text(encoding="utf-8", errors="replace")
            if word in text:
                yield name, text


def _kernels(path: str, text: str, root: str) -> tuple[list[_Kernel], set[str]]:
    """The functions of a file that Triton compiles, and the names of the functions that they call, in any file."""
    import ast  # noqa: PLC0415  (slow to load: most projects need no parser)

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return [], set()
    nodes = [*ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and _is_jit(node)]
    imported = {
        alias.asname: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    callees = [call.func for function in functions for call in ast.walk(function) if isinstance(call, ast.Call)]
    called = {imported.get(callee.id, callee.id) for callee in callees if isinstance(callee, ast.Name)}
    called |= {callee.attr for callee in callees if isinstance(callee, ast.Attribute) and not _is_language(callee)}
    module = path.removeprefix(f"{root}/").removesuffix(".py").replace("/", ".")
    return [_Kernel(path, f"{module}.{node.name}", node.name, node.lineno) for node in functions], called


def _is_language(callee: ast.Attribute) -> bool:
    """Whether a function belongs to Triton: `tl.load`."""
    import ast  # noqa: PLC0415  (as above)

    return ast.unparse(callee.value).partition(".")[0] in ("tl", "triton")


def _is_jit(function: ast.FunctionDef) -> bool:
    """Whether a function is decorated by `triton.jit`, with arguments or without."""
    import ast  # noqa: PLC0415  (as above)

    words = (ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list)
    return any(word in ("jit", "triton.jit") for word in words)
