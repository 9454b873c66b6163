"""Softmax of rows, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

WARP, SHARED, BLOCK = range(3)
"""How a row is reduced on a GPU: see csrc/[[ module ]].h."""


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, input: torch.Tensor, variant: int) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""


def [[ module ]](x: torch.Tensor, out: torch.Tensor | None = None, variant: int = -1) -> torch.Tensor:
    """The softmax of the last dimension.

    Args:
        x: float32, float16 or bfloat16 tensor of at least one dimension.
        out: contiguous tensor like `x` to write to; a new one by default.
        variant: WARP, SHARED or BLOCK; -1 takes the fastest that is known.

    Returns:
        `out`.
    """
    if out is None:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    ops.[[ module ]](out, x, variant)
    return out


__all__ = ["BLOCK", "SHARED", "WARP", "[[ module ]]"]
