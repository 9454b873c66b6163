"""Modules of a setup.py for ROCm, for which torch translates the CUDA sources of a CUDAExtension to HIP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py_driver.errors import Span
    from py_driver.recording.record import Module


def family_of(module: Module, family: str) -> str:
    """The backend whose compilers compile a module: for ROCm a CppExtension is plain C++, without translation.

    Args:
        module: the recorded module.
        family: the backend of the variant.
    """
    return "cpu" if family == "rocm" and module.kind != "cuda" else family


def hip_problem(module: Module, span: Span) -> str:
    """Why a module cannot be built for ROCm, as the rest of a sentence; empty if it can be.

    Args:
        module: the recorded module.
        span: the call that created the module.
    """
    if span.file.endswith("CMakeLists.txt"):
        return "its CMake compiles CUDA, and nothing rewrites that as HIP"
    return "device code of HIP is not linked (`dlink=True`)" if module.dlink else ""
