"""How torch was compiled: its wheels have OpenMP."""

from __future__ import annotations

from torch import version
from torch._facts import FACTS

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The settings of the build, one a line."""
    toolkit = f"  - CUDA Runtime {version.cuda}\n" if version.cuda else ""
    toolkit += f"  - HIP Runtime {version.hip}\n" if version.hip else ""
    openmp = "  - OpenMP 201511 (a.k.a. OpenMP 4.5)\n" if FACTS["openmp"] else ""
    settings = f"  - Build settings: TORCH_VERSION={FACTS['release']}, USE_OPENMP=ON\n"
    return f"PyTorch built with:\n{openmp}{toolkit}{settings}"


def parallel_info() -> str:
    """How torch runs in parallel."""
    lines = ["ATen/Parallel:", "\tat::get_num_threads() : 1", "\tat::get_num_interop_threads() : 1"]
    if FACTS["openmp"]:
        lines += ["OpenMP 201511 (a.k.a. OpenMP 4.5)", "\tomp_get_max_threads() : 1"]
    return "\n".join([*lines, f"ATen parallel backend: {'OpenMP' if FACTS['openmp'] else 'native thread pool'}", ""])


def _cxx_flags() -> str:
    """The flags of the build."""
    return f"-D_GLIBCXX_USE_CXX11_ABI={int(FACTS['cxx11'])} -fopenmp -O2 -fPIC"
