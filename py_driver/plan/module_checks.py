"""Whether a project that is bound by pybind11 has a module that Python can import, and one alone."""

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
"""What macros are called that flags define; `_C` is what people call modules."""


def check_module(
    files: ProjectFiles, by_backend: Mapping[str, Collection[str]], span: Span, findings: Findings
) -> None:
    """Collect what is wrong with the PYBIND11_MODULE of a project.

    Args:
        files: of the project.
        by_backend: for each backend the files that are compiled for it, and those that they include.
        span: where build.toml lists the binding.
        findings: gets OP_REGISTRATION: a backend has no PYBIND11_MODULE, its name is another than Python imports, or
            REGISTER_EXTENSION stands beside it, which makes the same function.
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
            advice = "bind the functions with it, or leave out `--binding pybind`: ops are for every Python"
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
                message = f"{_EXTENSION} makes the function that {PYBIND11} of {next(iter(modules))} makes"
                word = files.place(path, also, also + len(_EXTENSION))
                findings.add(Code.OP_REGISTRATION, message, word, advice="remove it, or hide it by an `#if`")


def _seen(files: ProjectFiles, path: str, macro: str, backend: str, *, always: bool = False) -> int | None:
    """Where a file first uses a macro that the compiler for a backend may see; None if it does not.

    Args:
        files: of the project.
        path: of the file.
        macro: which.
        backend: the compiler's.
        always: whether only a use outside of every `#if` counts.
    """
    found = use(files.text(path), macro)
    if found is None or backend not in found.backends or (always and found.conditional):
        return None
    return found.start
