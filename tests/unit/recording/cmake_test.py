"""CMake in a recording: its errors, and architectures as it writes them."""

from __future__ import annotations

import pytest

from py_driver.recording.cmake import architectures
from py_driver.recording.cmake_failures import CMakeFault, fault

FETCH = """\
-- Detecting CXX compile features - done
CMake Error at /build/stand_in/cmake/fetching.cmake:10 (message):
  recording: FetchContent of cutlass from
  https://example.invalid/cutlass.git
Call Stack (most recent call first):
  /usr/share/cmake/Modules/FetchContent.cmake:2133 (cmake_language)
  cmake/helper.cmake:4 (FetchContent_MakeAvailable)
  CMakeLists.txt:539 (helper)

-- Configuring incomplete, errors occurred!
"""
CLONED = """\
CMake Error at build/_deps/x-subbuild/x-populate-prefix/tmp/x-populate-gitclone.cmake:50 (message):
  Failed to clone repository: 'https://example.invalid/x.git'


CMake Error at /usr/share/cmake/Modules/FetchContent.cmake:1918 (message):
  Build step for x failed: 1
Call Stack (most recent call first):
  /build/project/sub/CMakeLists.txt:7 (FetchContent_Populate)

"""
GENERATOR = """\
CMake Error: CMake was unable to find a build program corresponding to "Unix Makefiles".
-- Configuring incomplete, errors occurred!
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            FETCH,
            CMakeFault(
                "cmake/helper.cmake",
                4,
                "FetchContent of cutlass from https://example.invalid/cutlass.git",
                fetches=True,
            ),
        ),
        (
            CLONED,
            CMakeFault(
                "sub/CMakeLists.txt", 7, "Failed to clone repository: 'https://example.invalid/x.git'", fetches=False
            ),
        ),
        (
            GENERATOR,
            CMakeFault(
                "", 0, 'CMake was unable to find a build program corresponding to "Unix Makefiles".', fetches=False
            ),
        ),
        (
            'CMake Error in CMakeLists.txt:\n  Target "x" is not there\n',
            CMakeFault("CMakeLists.txt", 1, 'Target "x" is not there', fetches=False),
        ),
        ("-- CMake Error is a word\n", None),
    ],
)
def test_an_error_of_cmake_has_the_line_of_the_project(output: str, expected: CMakeFault | None) -> None:
    assert fault(output, "/build/project") == expected


@pytest.mark.parametrize(
    ("arch_list", "expected"),
    [("8.0;9.0+PTX", ["80-real", "90"]), ("9.0a", ["90a-real"]), ("10.0f 12.0", ["100f-real", "120-real"]), ("", [])],
)
def test_architectures_are_written_as_cmake_does(arch_list: str, expected: list[str]) -> None:
    assert architectures(arch_list) == expected
