"""Changes for a module that is built for one Python: the visible headers, and the name of the library."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from py_driver.extensions.headers import OF_PYTHON
from py_driver.matrix.matrix import CPYTHON_PART

if TYPE_CHECKING:
    from py_driver.extensions.headers import Reached
    from py_driver.matrix.pythons import Python
    from py_driver.plan.plan import Variant
    from py_driver.recording.record import Module


def with_cpython(found: Reached) -> Reached:
    """The reach of a source with the headers of one Python instead of those for every Python."""
    depends = set(found.depends)
    if depends & OF_PYTHON:
        depends = depends - OF_PYTHON | {CPYTHON_PART}
    return found._replace(depends=tuple(sorted(depends)))


def for_python(variant: Variant, module: Module, python: Python) -> Variant:
    """The variant of a module for one Python.

    Args:
        variant: the variant for every Python.
        module: the recorded module.
        python: the Python.
    """
    plain = posixpath.basename(module.file) == f"{module.name.rpartition('.')[2]}.so"
    return variant._replace(
        suffix=f"-{python.tag}{variant.suffix}",
        library_suffix=".so" if plain else python.suffix(variant.configuration.cpu or ""),
        python=python,
    )
