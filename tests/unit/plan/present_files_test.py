"""Messages about files that are missing, and what they say is there instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from relu import plan, write

from py_driver.errors import Code, Diagnostic, DriverError

if TYPE_CHECKING:
    from pathlib import Path

INCLUDE = '["."]'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path)


def first(project: Path, old: str = "", new: str = "") -> Diagnostic:
    """The first error of a project with a change of its build.toml."""
    with pytest.raises(DriverError) as caught:
        plan(project, old, new)
    return caught.value.diagnostics[0]


def test_a_section_without_sources_names_one_that_no_section_lists(project: Path) -> None:
    (project / "csrc" / "gelu.cu").touch()
    found = first(project, '"csrc/relu.cu", "csrc/relu.h"', "")
    assert (found.code, found.help) == (Code.MISSING_KEY, "list `csrc/gelu.cu`, or remove the section")


def test_a_binding_without_sources_names_one_in_its_directory(project: Path) -> None:
    (project / "torch-ext" / "ops.cc").touch()
    (project / "other.cpp").touch()
    found = first(project, '"torch-ext/binding.cpp"', '"csrc/relu.h"')
    assert (found.code, found.help) == (Code.MISSING_KEY, 'list it: src = ["torch-ext/binding.cpp"]')


def test_a_missing_file_of_the_same_name_elsewhere_is_named(project: Path) -> None:
    (project / "kernels" / "of" / "all").mkdir(parents=True)
    (project / "csrc" / "relu.cu").rename(project / "kernels" / "of" / "all" / "relu.cu")
    found = first(project)
    assert (found.code, found.label) == (Code.FILE_MISSING, "there is `kernels/of/all/relu.cu`")


def test_a_missing_include_directory_is_called_one_and_its_neighbour_named(project: Path) -> None:
    found = first(project, INCLUDE, '["csrcs"]')
    assert found.message == "there is no directory `csrcs`"
    assert (found.code, found.label) == (Code.FILE_MISSING, "did you mean `csrc`?")


def test_a_file_as_include_directory_names_the_directory_that_has_it(project: Path) -> None:
    found = first(project, INCLUDE, '["csrc/relu.h"]')
    assert (found.code, found.help) == (Code.FILE_KIND, "write `csrc`, where it is")


def test_a_package_names_the_file_that_stands_for_its_init(project: Path) -> None:
    package = project / "torch-ext" / "relu"
    (package / "__init__.py").rename(package / "__init_.py")
    assert first(project).label == "there is torch-ext/relu/__init_.py"


def test_a_package_names_the_nearest_package(project: Path) -> None:
    (project / "torch-ext" / "relu").rename(project / "torch-ext" / "rleu")
    (project / "torch-ext" / "aaa").mkdir()
    (project / "torch-ext" / "aaa" / "__init__.py").touch()
    assert first(project).label == "there is torch-ext/rleu"
