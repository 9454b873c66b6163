"""The variants of the first README of kernel-builder: torch 2.4 and 2.5, both C++ ABIs, CUDA 11.8 and 12.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from clone import BINDING, action_counts, copy_project, cuda_actions
from elftools.elf.elffile import ELFFile

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built, Driver

pytestmark = pytest.mark.e2e

# How g++ and clang mark the new std::string in a mangled name: its namespace, and the ABI tag of functions.
_NEW_STRING = ("7__cxx11", "B5cxx11")


def _of_torch(library: Path) -> list[str]:
    """The symbols that a library wants of torch."""
    with library.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        names = [symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"]
    return [name for name in names if name.startswith(("_ZN5torch", "_ZNK5torch", "_ZN3c10", "_ZNK3c10", "_ZN2at"))]


def _check_abi(build: Path, variant: str) -> None:
    [library] = (build / variant).glob("*.so")
    names = _of_torch(library)
    assert names
    marked = [name for name in names if any(mark in name for mark in _NEW_STRING)]
    assert bool(marked) == ("-cxx11-" in variant), marked


def test_torch_symbols_are_those_of_the_abi(installed: Driver, alone: Built, base: Path) -> None:
    project = copy_project(alone.project, base / "seed-cpu")
    installed.build(project, "torch24-*-cpu-*")
    for abi in ("cxx11", "cxx98"):
        _check_abi(project / "build", f"torch24-{abi}-cpu-x86_64-linux")


@pytest.mark.slow
def test_the_eight_variants_build(installed: Driver, alone: Built, base: Path) -> None:
    project = copy_project(alone.project, base / "seed-cuda")
    result = installed.build(project, "torch2{4,5}-*-cu{118,124}-*")
    # The binding is compiled for each variant, and the kernel, which does without torch, for each CUDA release and ABI.
    # What is assembled and bundled is the same for both ABIs: once, unless both are at it.
    run, shared, cached = action_counts(result)
    most = 8 * BINDING + 2 * 2 * cuda_actions(2)
    assert most - 2 * (2 + 1) <= run <= most
    assert (run + shared, cached) == (8 * (BINDING + cuda_actions(2)), 0)
    variants = sorted(row["variant"] for row in result["variants"])
    assert len(variants) == 8
    for variant in variants:
        _check_abi(project / "build", variant)
