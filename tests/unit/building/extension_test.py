"""Projects with a setup.py: what is said when no configuration can be built."""

from __future__ import annotations

from py_driver.building.extension import all_of
from py_driver.errors import Code, Diagnostic, DriverError, Span


def fault(message: str, advice: str = "") -> Diagnostic:
    return Diagnostic(Code.UNSUPPORTED, message, Span("setup.py", 1, 1), help=advice)


def test_each_fault_is_said_once_and_those_of_the_cpu_last() -> None:
    failures = [
        (True, DriverError([fault("needs nvcc", "torch 2.13")])),
        (False, DriverError([fault("b"), fault("a")])),
        (True, DriverError([fault("needs nvcc", "torch 2.15")])),
        (False, DriverError([fault("a"), fault("c")])),
    ]
    said = all_of(failures).diagnostics
    assert [found.message for found in said] == ["b", "a", "c", "needs nvcc"]
    assert said[-1].help == "torch 2.13"
