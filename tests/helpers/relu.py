"""A project with one CUDA source and its header, and the driver's results for it after a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tree import write_files

from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

MANIFEST = """\
[general]
name = "relu"
version = 1
edition = 5
license = "mit"
backends = ["cuda"]

[torch]
src = ["torch-ext/binding.cpp"]
include = ["."]

[kernel.relu]
backend = "cuda"
depends = []
include = ["."]
src = ["csrc/relu.cu", "csrc/relu.h"]
"""
BINDING = '#include "registration.h"\n#include "csrc/relu.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n'


def write(directory: Path) -> Path:
    """Write the project; its directory."""
    files = {
        "build.toml": MANIFEST,
        "torch-ext/relu/__init__.py": "",
        "torch-ext/binding.cpp": BINDING,
        "csrc/relu.cu": '#include "relu.h"\n#include <cuda_runtime.h>\n',
        "csrc/relu.h": "#pragma once\n",
        "csrc/more/deep.cuh": "",
        "csrc/other.metal": "",
    }
    return write_files(directory, files)


def plan(project: Path, old: str = "", new: str = "") -> Plan:
    """The plan of the project after a change of its build.toml."""
    assert old in MANIFEST
    (project / "build.toml").write_text(MANIFEST.replace(old, new, 1) if old else MANIFEST, encoding="utf-8")
    return plan_directory(project, Releases())


def notes(project: Path, old: str = "", new: str = "") -> list[str]:
    """The notes of the project after a change of its build.toml."""
    return [note.message for note in plan(project, old, new).notes]


def codes(project: Path, old: str = "", new: str = "") -> list[Code]:
    """The codes of the errors after a change of build.toml."""
    with pytest.raises(DriverError) as caught:
        plan(project, old, new)
    return [diagnostic.code for diagnostic in caught.value.diagnostics]
