"""What to do where a module cannot be compiled on torch::Library, and nobody could know that before."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, Diagnostic, DriverError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.building.extension import Extension

_OF_BINDING: Final = re.compile(r"without Python|\bpybind11\b|\bpy::|\bPy[A-Z]\w*_")
"""Words in what a compiler or a check says of code that wants a Python."""


@contextmanager
def advising_pybind(extension: Extension) -> Iterator[None]:
    """Add to an error of a compiler or a check how to bind modules by pybind11, if that may help.

    Args:
        extension: the project that is built.

    Raises:
        DriverError: what is raised within, with one more diagnostic.
    """
    try:
        yield
    except DriverError as failure:
        modules = {variant.module for plan in extension.plans for variant in plan.variants if variant.python is None}
        codes = {Code.BUILD_FAILED, Code.NOT_COMPLIANT}
        about = [
            fault
            for fault in failure.diagnostics
            if fault.code in codes and _OF_BINDING.search(f"{fault.message} {fault.text}")
        ]
        if not about or not modules:
            raise
        message = f"{', '.join(sorted(modules))} was built for every Python, and the sources seem to need one"
        advice = "build for each Python: `--binding pybind`"
        raise DriverError(
            [*failure.diagnostics, Diagnostic(code=about[0].code, message=message, help=advice)]
        ) from failure
