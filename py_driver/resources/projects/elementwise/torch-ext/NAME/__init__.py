"""SiLU, x * sigmoid(x), as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, input: torch.Tensor) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""


def [[ module ]](x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`x * sigmoid(x)`.

    Args:
        x: float32, float16 or bfloat16 tensor of any shape and strides.
        out: contiguous tensor like `x` to write to; a new one by default.

    Returns:
        `out`.
    """
    if out is None:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    ops.[[ module ]](out, x)
    return out


__all__ = ["[[ module ]]"]
