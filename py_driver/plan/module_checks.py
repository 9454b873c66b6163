"""Checks that a project that pybind11 binds has exactly one module, which Python can import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code
from py_driver.plan.include_problems import PYBIND11
from py_driver.plan.includes import use
from py_driver.plan.op_registrations import DIRECTIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from py_driver.errors import Span
    from py_driver.manifest.section import Findings
    from py_driver.plan.project_files import ProjectFiles

_EXTENSION: Final = "REGISTER_EXTENSION"
_NAME: Final = re.compile(rf"{PYBIND11}\s*\(\s*(?P<name>\w+)")

_MACRO: Final = re.compile(r"[A-Z][A-Z0-9_]+")
"""Names of macros that flags define; `_C` is the usual name of modules."""


def check_module(
    files: ProjectFiles, by_backend: Mapping[str, Collection[str]], span: Span, findings: Findings
) -> None:
    """Collect errors about the PYBIND11_MODULE of a project.

    Args:
        files: the files of the project.
        by_backend: the files that are compiled for each backend, and the files that they include.
        span: the position of the binding in build.toml.
        findings: gets OP_REGISTRATION: a backend has no PYBIND11_MODULE, its name differs from the one that Python
            imports, or REGISTER_EXTENSION, which defines the same function, stands beside it.
    """
    macros = {
        found["macro"]
        for paths in by_backend.values()
        for path in paths
        for found in DIRECTIVE.finditer(files.text(path))
    }
    for backend, paths in by_backend.items():
        modules = {path: start for path in paths if (start := _seen(files, path, PYBIND11, backend)) is not None}
        if not modules:
            message = f"no source for {backend} has {PYBIND11}(TORCH_EXTENSION_NAME, m), so pybind11 binds nothing"
            advice = "bind the functions with it, or omit `--binding pybind`: ops are for every Python"
            findings.add(Code.OP_REGISTRATION, message, span, advice=advice)
            continue
        for path, start in modules.items():
            name = _NAME.match(files.text(path), start)
            is_macro = name is not None and (name["name"] in macros or _MACRO.fullmatch(name["name"]) is not None)
            if name and not is_macro and files.complains(path, name.start("name"), error=True):
                message = f"Python imports TORCH_EXTENSION_NAME, not `{name['name']}`; write the macro's name here"
                findings.add(Code.OP_REGISTRATION, message, files.place(path, *name.span("name")))
        for path in paths:
            also = _seen(files, path, _EXTENSION, backend, always=True)
            if also is not None and files.complains(path, also, error=True):
                message = f"{_EXTENSION} defines the same function as {PYBIND11} of {next(iter(modules))}"
                word = files.place(path, also, also + len(_EXTENSION))
                findings.add(Code.OP_REGISTRATION, message, word, advice="remove it, or hide it by an `#if`")


def _seen(files: ProjectFiles, path: str, macro: str, backend: str, *, always: bool = False) -> int | None:
    """The position of a file's first use of a macro that the compiler for a backend may see; None if there is none.

    Args:
        files: the files of the project.
        path: the path of the file.
        macro: the macro.
        backend: the compiler's backend.
        always: whether only uses outside of every `#if` count.
    """
    found = use(files.text(path), macro)
    if found is None or backend not in found.backends or (always and found.conditional):
        return None
    return found.start
