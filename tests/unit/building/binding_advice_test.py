"""An error of a compiler about Python says how to build for each Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

from py_driver.building.binding_advice import advising_pybind
from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.matrix.pythons import Python

if TYPE_CHECKING:
    from py_driver.building.extension import Extension


class _Variant(NamedTuple):
    module: str
    python: Python | None


class _Plan(NamedTuple):
    variants: tuple[_Variant, ...]


class _Extension(NamedTuple):
    plans: tuple[_Plan, ...]


def raised(text: str, python: Python | None = None, code: Code = Code.BUILD_FAILED) -> list[Diagnostic]:
    extension = cast("Extension", _Extension((_Plan((_Variant("pkg._C", python),)),)))
    with pytest.raises(DriverError) as failure, advising_pybind(extension):
        raise DriverError([Diagnostic(code=code, message="error", text=text)])
    return list(failure.value.diagnostics)


@pytest.mark.parametrize(
    "text", ["not supported without Python: py::print", "no member named 'x' in namespace 'pybind11'"]
)
def test_an_error_about_python_names_the_option(text: str) -> None:
    [_, advice] = raised(text)
    assert advice.code is Code.BUILD_FAILED
    assert advice.help == "build for each Python: `--binding pybind`"
    assert "pkg._C" in advice.message


def test_other_errors_stay_as_they_are() -> None:
    assert len(raised("expected ';'")) == 1
    assert len(raised("namespace 'pybind11'", Python("3.13", "3.13"))) == 1
    assert len(raised("namespace 'pybind11'", code=Code.NO_SPACE)) == 1
