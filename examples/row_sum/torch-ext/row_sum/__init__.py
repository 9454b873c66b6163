"""Sums of the rows of a matrix: warp-level code that is right for warps of 32 and of 64 threads."""

from __future__ import annotations

import torch

from ._ops import ops


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of each row.

    Args:
        x: float32 tensor of shape (rows, columns) on a GPU, of any strides.

    Returns:
        A float32 tensor of shape (rows,).
    """
    out = torch.empty(x.shape[:1], dtype=x.dtype, device=x.device)
    ops.row_sum(out, x)
    return out


__all__ = ["row_sum"]
