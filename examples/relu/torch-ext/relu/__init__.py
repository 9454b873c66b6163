"""ReLU as a kernel of its own: the smallest complete example."""

from __future__ import annotations

import torch

from ._ops import ops


def relu(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`x` where it is positive or NaN, else 0.

    Args:
        x: float32, float16 or bfloat16 tensor of any shape and strides.
        out: contiguous tensor like `x` to write to; a new one by default.

    Returns:
        `out`.
    """
    if out is None:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    ops.relu(out, x)
    return out


__all__ = ["relu"]
