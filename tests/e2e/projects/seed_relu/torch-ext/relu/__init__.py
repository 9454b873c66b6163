"""ReLU in the form of the first documentation."""

import torch

from ._ops import ops


def relu(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Write relu(x), a contiguous float32 CUDA tensor, to `out`."""
    ops.relu(out, x)
    return out
