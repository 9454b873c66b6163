"""A linear layer with ReLU in one kernel."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""


def [[ module ]](
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`relu(a @ b + bias)`.

    Args:
        a: contiguous float16 matrix; its columns are a multiple of 8.
        b: contiguous float16 matrix, with as many rows as `a` has columns; its columns are a multiple of 8.
        bias: contiguous float16 vector, as long as a row of the result.
        out: contiguous float16 matrix to write to; a new one by default.

    Returns:
        `out`. Sums are float32. There is no backward: an input that requires grad is an error, but under
        torch.no_grad().
    """
    if out is None:
        out = torch.empty(a.shape[0], b.shape[-1], dtype=a.dtype, device=a.device)
    ops.[[ module ]](out, a, b, bias)
    return out


__all__ = ["[[ module ]]"]
