"""plan -> plan: the variants of a project that pybind11 binds, one for each Python. Pure.

pybind11 needs Python's own API, which differs between Pythons. Sources that include Python's headers are compiled for
each Python with its headers; all other sources keep their targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.matrix.configurations import Configuration
from py_driver.matrix.matrix import CPYTHON_PART
from py_driver.matrix.pythons import Python, check_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.matrix.matrix import Matrix
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant

Pythons = Callable[[Configuration], tuple[Python, ...]]
"""The Pythons of a configuration, in order."""

_PYTHON: Final = "python"
"""The dependency of sources that include Python's headers; see `py_driver.plan.header_checks`."""


def for_pythons(plan: Plan, chosen: Sequence[Variant], matrix: Matrix, pythons: Pythons) -> Plan:
    """A plan of the chosen variants, with one variant for each Python if it has an extension.

    Args:
        plan: the plan of a project with PYBIND11_MODULE.
        chosen: variants of the plan.
        matrix: the releases to build for.
        pythons: the Pythons to build for.

    Raises:
        DriverError: UNSUPPORTED for a project that pybind11 cannot bind: torch's stable ABI, tvm-ffi, Python files
            alone; or for a torch without a wheel for a Python.
    """
    _check(plan, chosen)
    variants = tuple(
        own
        for variant in chosen
        for own in (
            [_for_python(variant, python, matrix) for python in pythons(variant.configuration)]
            if variant.groups
            else [variant]
        )
    )
    return plan._replace(groups=tuple(map(_with_cpython, plan.groups)), variants=variants, is_changed=True)


def _check(plan: Plan, chosen: Sequence[Variant]) -> None:
    """Refuse variants that pybind11 cannot bind.

    Raises:
        DriverError: UNSUPPORTED if it cannot.
    """
    if any(variant.configuration.tvm_ffi for variant in chosen):
        message, advice = f"`{plan.name}` is bound with tvm-ffi, and not by pybind11", "leave out `--binding`"
    elif any(variant.configuration.stable for variant in chosen):
        message = "pybind11 needs torch's own headers, and `stable-abi` is for kernels that do not use them"
        advice = "remove `stable-abi` from [torch]"
    elif not any(variant.groups for variant in chosen):
        message, advice = f"`{plan.name}` has Python files alone: nothing to bind", "leave out `--binding`"
    else:
        return
    raise error(Code.UNSUPPORTED, message, help=advice)


def _for_python(variant: Variant, python: Python, matrix: Matrix) -> Variant:
    """The variant for a Python."""
    configuration = variant.configuration
    check_torch(matrix, configuration.torch or "", python)
    return variant._replace(
        suffix=f"-{python.tag}", library_suffix=python.suffix(configuration.cpu or ""), python=python
    )


def _with_cpython(group: Group) -> Group:
    """The group with the headers of one Python instead of those for every Python, if it uses Python's headers."""
    if _PYTHON not in group.depends:
        return group
    return group._replace(depends=tuple(sorted({*group.depends, CPYTHON_PART} - {_PYTHON})))
