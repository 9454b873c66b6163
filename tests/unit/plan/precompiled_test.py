"""Which targets ask for a precompiled header."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from py_driver.plan.groups import Group
from py_driver.plan.plan import Plan
from py_driver.plan.precompiled import with_precompiled

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "#include <torch/extension.h>\n"
WRAPS = "-fno-strict-overflow"


def asks(
    directory: Path,
    text: str,
    *flags: str,
    depends: tuple[str, ...] = ("pybind", "torch"),
    of_python: str = WRAPS,
    standard: tuple[str, ...] = ("-std=c++20",),
) -> bool:
    (directory / "main.cpp").write_text(text, encoding="utf-8")
    group = Group(
        name="objects",
        title="objects",
        backend="cpu",
        sources=("main.cpp",),
        headers=(),
        includes=(),
        cxx_flags=(of_python, *standard, *flags),
        cuda_flags=(),
        hip_flags=(),
        depends=depends,
        archs={},
        identity="",
    )
    plan = Plan("a", "a", "", (), (), (group,), (), (), (), ("x86_64",))
    [found] = with_precompiled(plan, directory).groups
    assert found._replace(precompiled=False) == group
    return found.precompiled


@pytest.mark.parametrize(
    "text",
    [FIRST, "\n" + FIRST, "// a\n/* b\n */" + FIRST, '#pragma once\n# include "torch/extension.h"\n'],
    ids=["first", "blank", "comments", "pragma"],
)
def test_a_source_that_includes_it_first(tmp_path: Path, text: str) -> None:
    assert asks(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    ["", "int x;\n" + FIRST, "#include <cmath>\n" + FIRST, "#define A\n" + FIRST, "#include <torch/all.h>\n"],
    ids=["empty", "code", "another", "macro", "all"],
)
def test_a_source_that_does_not(tmp_path: Path, text: str) -> None:
    assert not asks(tmp_path, text)


@pytest.mark.parametrize("flag", ["-DA=1", "-UA", "-Wall", "-w", "-O3", "-std=c++20"])
def test_flags_that_change_no_header(tmp_path: Path, flag: str) -> None:
    assert asks(tmp_path, FIRST, flag)


@pytest.mark.parametrize("flag", ["-O2", "-g", "-std=gnu++17", "-march=native", "-Wa,x", "-fopenmp", "-include", "a.h"])
def test_flags_that_may_change_it(tmp_path: Path, flag: str) -> None:
    assert not asks(tmp_path, FIRST, flag)


@pytest.mark.parametrize("of_python", ["-UNDEBUG", "-fwrapv"])
def test_the_header_has_the_flags_of_setuptools(tmp_path: Path, of_python: str) -> None:
    assert asks(tmp_path, FIRST)
    assert not asks(tmp_path, FIRST, of_python=of_python)
    assert not asks(tmp_path, FIRST, "-fstrict-overflow")


def test_a_source_of_the_default_standard(tmp_path: Path) -> None:
    assert not asks(tmp_path, FIRST, standard=())


def test_other_bindings(tmp_path: Path) -> None:
    assert not asks(tmp_path, FIRST, depends=("cpython", "torch"))
    assert not asks(tmp_path, FIRST, depends=("openmp", "pybind", "torch"))
