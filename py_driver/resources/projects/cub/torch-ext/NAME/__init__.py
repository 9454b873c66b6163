"""A running sum, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, input: torch.Tensor) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""


def [[ module ]](x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """The sums of all first elements: `torch.cumsum(x, 0)`.

    Args:
        x: float32, int32 or int64 tensor of one dimension.
        out: contiguous tensor like `x` to write to; a new one by default.

    Returns:
        `out`. There is no backward: an input that requires grad is an error, but under torch.no_grad().
    """
    if out is None:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    ops.[[ module ]](out, x)
    return out


__all__ = ["[[ module ]]"]
