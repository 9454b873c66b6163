"""Multiplies float16 matrices with CUTLASS."""

import torch

from ._ops import ops


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a @ b`, for sizes that are multiples of eight."""
    return ops.gemm(a.contiguous(), b.contiguous())


def cutlass_versions() -> tuple[int, int]:
    """The releases of CUTLASS that the two kernel sections were compiled with: 306 for 3.6."""
    return ops.cutlass_versions()
