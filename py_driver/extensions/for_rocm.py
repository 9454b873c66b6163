"""Modules of a setup.py for ROCm, where torch rewrites the CUDA sources of a CUDAExtension as HIP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py_driver.errors import Span
    from py_driver.recording.record import Module


def family_of(module: Module, family: str) -> str:
    """The backend whose compilers take a module: for ROCm a CppExtension is C++ as it stands, and nothing rewrites it.

    Args:
        module: as recorded.
        family: the backend of the variant.
    """
    return "cpu" if family == "rocm" and module.kind != "cuda" else family


def hip_problem(module: Module, span: Span) -> str:
    """Why a module cannot be built for ROCm, as the rest of a sentence; empty if it can.

    Args:
        module: as recorded.
        span: the call that created the module.
    """
    if span.file.endswith("CMakeLists.txt"):
        return "its CMake compiles CUDA, and nothing rewrites that as HIP"
    return "device code of HIP is not linked (`dlink=True`)" if module.dlink else ""
