"""A small project with sections for both backends, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from py_driver.errors import DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

GENERAL = """\
[general]
name = "re_lu"
version = 2
edition = 5
license = "mit"
backends = ["cpu", "cuda"]
"""
TORCH = """\
[torch]
src = ["torch-ext/b.h", "torch-ext/b.cpp"]
"""
CUDA = """\
[kernel.g]
backend = "cuda"
depends = ["torch"]
src = ["g/z.cuh", "g/b.cu", "g/a.cu"]
cuda-flags = ["-DX=\\"é\\""]
"""
CPU = """\
[kernel.c]
backend = "cpu"
depends = []
src = ["c.cpp"]
include = ["g"]
"""
FILES = ("torch-ext/re_lu/__init__.py", "torch-ext/re_lu/sub/x.py", "torch-ext/re_lu/data.json", "torch-ext/b.h",
         "torch-ext/re_lu/__pycache__/y.py", "torch-ext/b.cpp", "g/z.cuh", "g/a.cu", "g/b.cu", "c.cpp")  # fmt: skip
BINDING = "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n"

RELEASES = Releases()


def make(directory: Path, text: str, releases: Releases = RELEASES) -> Plan:
    """The plan of a project with every file of FILES and the given build.toml."""
    for name in FILES:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    binding = directory / "torch-ext/b.cpp"
    binding.write_text(binding.read_text(encoding="utf-8") or BINDING, encoding="utf-8")
    (directory / "build.toml").write_text(text, encoding="utf-8")
    return plan_directory(directory, releases)


def names(plan: Plan) -> list[str]:
    """The identifiers of a plan's variants."""
    return [variant.name for variant in plan.variants]


def failure(directory: Path, text: str) -> DriverError:
    """The error of planning a project."""
    with pytest.raises(DriverError) as caught:
        make(directory, text)
    return caught.value
