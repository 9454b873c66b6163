"""Projects with a setup.py, and the results of recording them."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from py_driver.errors import Diagnostic, DriverError
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.recording.facts import facts
from py_driver.recording.recorder import Recorded, record_project

if TYPE_CHECKING:
    from pathlib import Path

CU130 = "torch213-cxx11-cu130-x86_64-linux"
CPU = "torch213-cxx11-cpu-x86_64-linux"
ARCHS = {"cuda": "8.0;9.0+PTX", "rocm": "gfx942"}
RELEASES = Releases()

SETUP = """
    from setuptools import setup
    from torch.utils.cpp_extension import BuildExtension, CUDAExtension

    setup(
        name="thing",
        version="1.0",
        ext_modules=[CUDAExtension("thing_cuda", ["a.cpp", "b.cu"])],
        cmdclass={"build_ext": BuildExtension},
    )
"""
BODY = textwrap.dedent(SETUP).lstrip("\n")
"""The same without indentation, for use after other statements."""

SOABI = "cpython-311-x86_64-linux-gnu"


def write_project(directory: Path, setup: str = SETUP, files: dict[str, str] | None = None) -> Path:
    """A project with a setup.py, the sources of `SETUP`, and further files."""
    texts = {"setup.py": setup, "a.cpp": "// a\n", "b.cu": "// b\n", **(files or {})}
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return directory


def project(directory: Path, setup: str, files: dict[str, str] | None = None) -> Path:
    """The same in the subdirectory `project` of a test's directory."""
    return write_project(directory / "project", setup, files)


def record(directory: Path, identifier: str = CU130, limits: dict[str, int] | None = None) -> Recorded:
    """A recording of a project."""
    configuration = parse(identifier)
    return record_project(
        directory,
        configuration,
        ARCHS.get(configuration.family, ""),
        RELEASES,
        Output(io.StringIO(), io.StringIO()),
        limits={**facts()["limits"], **(limits or {})},
    )


def fault(directory: Path, identifier: str = CU130, limits: dict[str, int] | None = None) -> Diagnostic:
    """The single error of recording a project."""
    try:
        recorded = record(directory, identifier, limits)
    except DriverError as failure:
        [diagnostic] = failure.diagnostics
        return diagnostic
    raise AssertionError(f"it was recorded: {recorded.record}")
