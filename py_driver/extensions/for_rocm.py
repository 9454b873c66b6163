"""What stands in the way of building a module of a setup.py for ROCm, where torch rewrites CUDA sources as HIP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.plan.includes import code_of

if TYPE_CHECKING:
    from py_driver.errors import Span
    from py_driver.extensions.headers import ProjectTree
    from py_driver.recording.record import Module

_CUDA: Final = re.compile(r"\w*(cuda|CUDA|Cuda|CUDNN)\w*|\bcu([A-Z]|b\b|blas|rand|fft|sparse|solver|dnn)\w*|\bTHC\w*|\bnv\w+")
"""The words of C++ that hipify may rewrite."""


def hip_problem(module: Module, tree: ProjectTree, span: Span) -> str:
    """Why a module cannot be built for ROCm, as the rest of a sentence; empty if it can.

    torch rewrites the sources of a CUDAExtension; those of a CppExtension stay as they are, and the rules rewrite
    everything that is built for ROCm.

    Args:
        module: as recorded.
        tree: the files of the project.
        span: the call that created the module.
    """
    if span.file.endswith("CMakeLists.txt"):
        return "its CMake compiles CUDA, and nothing rewrites that as HIP"
    if module.dlink:
        return "device code of HIP is not linked (`dlink=True`)"
    for source in module.sources:
        if module.kind != "cuda" and tree.exists(source) and (found := _CUDA.search(code_of(tree.text(source)))):
            return f"a CppExtension is not rewritten as HIP, and `{source}` has `{found[0]}`"
    return ""
