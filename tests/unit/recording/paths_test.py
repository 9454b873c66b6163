"""The paths of a run, as a record has them."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from py_driver.recording.paths import Paths

PATHS = Paths("/build", Path("/cache/packages"), "cuda")
SITE = f"/build/python/lib/python{sysconfig.get_python_version()}/site-packages"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("csrc", "csrc"),
        ("a/../csrc/", "csrc"),
        ("/build/project", "."),
        ("/build/project/csrc", "csrc"),
        ("../x", "/build/x"),
        ("/build/projects/x", "/build/projects/x"),
        ("/build/stand_in/torch/include/torch/csrc", "torch:include/torch/csrc"),
        ("/build/toolkit/include", "cuda:include"),
        ("/build/toolkit", "cuda:"),
        (f"{SITE}/numpy/_core/include", "numpy:include"),
        (f"{SITE}/numpy/core/include/numpy", "numpy:include/numpy"),
        (f"{SITE}/pybind11/include", "pybind11:include"),
        ("/cache/packages/pybind11/include", "pybind11:include"),
        (sysconfig.get_paths()["include"], "python:include"),
        ("/opt/include", "/opt/include"),
    ],
)
def test_a_path_is_relative_or_has_a_name(path: str, expected: str) -> None:
    assert PATHS.relative(path) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-O3", "-O3"),
        ("-I/build/project/csrc", "-Icsrc"),
        ("-I/build/project", "-I."),
        ("-I/build/project/", "-I."),
        ("-I/build/project -I/build/project/a", "-I. -Ia"),
        ("-I/build/projects", "-I/build/projects"),
        ("-Wl,-rpath,/build/project/lib:/build/toolkit/lib64", "-Wl,-rpath,lib:cuda:lib64"),
        ("-I/build/stand_in/torch/include", "-Itorch:include"),
    ],
)
def test_a_flag_has_such_paths(text: str, expected: str) -> None:
    assert PATHS.in_text(text) == expected
