"""Sums of the rows of a matrix: warp-level code that is right for warps of 32 and of 64 threads."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("row_sum"))
def _fake(x: torch.Tensor) -> torch.Tensor:
    """What torch.compile runs in the place of the kernel: it knows the output's shape and type alone."""
    return x.new_empty(x.shape[0])


def _save(ctx, inputs, output):  # noqa: ARG001  (torch passes all by name)
    """Keep what the gradient needs: the shape alone."""
    ctx.shape = inputs[0].shape


def _backward(ctx, grad):
    """The gradient of each element: that of the sum of its row."""
    return grad[:, None].expand(ctx.shape)


torch.library.register_autograd(add_op_namespace_prefix("row_sum"), _backward, setup_context=_save)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of each row.

    Args:
        x: float32 tensor of shape (rows, columns) on a GPU, of any strides.

    Returns:
        A float32 tensor of shape (rows,).
    """
    return ops.row_sum(x)


__all__ = ["row_sum"]
