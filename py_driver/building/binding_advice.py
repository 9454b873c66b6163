"""Advice for modules that turn out not to compile on torch::Library, which nothing before the build can show."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, Diagnostic, DriverError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.building.extension import Extension

_OF_BINDING: Final = re.compile(r"without Python|\bpybind11\b|\bpy::|\bPy[A-Z]\w*_")
"""Words in errors of a compiler or a check about code that needs one Python."""


@contextmanager
def advising_pybind(extension: Extension) -> Iterator[None]:
    """Add advice to bind modules by pybind11 to an error of a compiler or a check, if it may help.

    Args:
        extension: the project being built.

    Raises:
        DriverError: the error of the body, with one more diagnostic.
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
