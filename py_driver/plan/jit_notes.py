"""Kernels in Triton that are compiled where they first run, since no aot.toml lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Note
from py_driver.manifest.ahead import AHEAD, FAMILIES
from py_driver.manifest.locate import Source
from py_driver.manifest.text import SIZE_LIMIT
from py_driver.system.files import is_file

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from py_driver.plan.project import Project

_WORD = "triton"
_SHOWN = 3
"""How many kernels a note names."""


class _Kernel(NamedTuple):
    """A function with `triton.jit`: its file, the function in the package, its name, and its line."""

    path: str
    function: str
    name: str
    line: int


def jit_notes(project: Project) -> list[Note]:
    """A note on the kernels that Triton compiles at a user's first call, if there are any.

    A function that another one with `triton.jit` calls is none of its own.

    Args:
        project: that has been checked.
    """
    if not any(family in FAMILIES for family in project.manifest.built):
        return []
    listed = {function for target in project.triton for function in target.functions}
    texts = dict(_texts(project))
    kernels = [kernel for path, text in texts.items() for kernel in _kernels(path, text, project.python_root)]
    left = [kernel for kernel in kernels if kernel.function not in listed]
    if not left:
        return []
    names = ", ".join(f"`{kernel.name}`" for kernel in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    message = (
        f"Triton compiles {names}{more} at a user's first call, which takes seconds; list them in {AHEAD}, or record "
        "the list with `driver trace`"
    )
    first = left[0]
    source = Source(str(project.directory / first.path), texts[first.path])
    start = source.text.index(first.name, sum(map(len, source.text.splitlines(keepends=True)[: first.line - 1])))
    return [Note(message=message, span=source.span(start, start + len(first.name)))]


def _texts(project: Project) -> Iterator[tuple[str, str]]:
    """The Python files that name Triton, with their texts."""
    for name in project.python:
        path = project.directory / name
        if name.endswith(".py") and is_file(path) and path.stat().st_size <= SIZE_LIMIT:
            text = path.read_text(encoding="utf-8", errors="replace")
            if _WORD in text:
                yield name, text


def _kernels(path: str, text: str, root: str) -> Iterator[_Kernel]:
    """The functions of a file that Triton compiles, but for those that others call."""
    import ast  # noqa: PLC0415  (slow to load: most projects need no parser)

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_jit(node)]
    called = {
        call.func.id
        for function in functions
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    module = path.removeprefix(f"{root}/").removesuffix(".py").replace("/", ".")
    for function in functions:
        if function.name not in called:
            yield _Kernel(path, f"{module}.{function.name}", function.name, function.lineno)


def _is_jit(function: ast.FunctionDef) -> bool:
    """Whether a function is decorated by `triton.jit`, with arguments or without."""
    import ast  # noqa: PLC0415  (as above)

    words = (ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list)
    return any(word in ("jit", "triton.jit") for word in words)
