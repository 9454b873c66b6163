"""Layer norm of a sum, `x + residual`, with its gradients, as kernels of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


[% include "projects/parts/check_devices.py" %]


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What torch.compile runs in the place of the kernel: it knows the outputs' shapes alone."""
    _check_devices(x, residual, weight, bias)
    like = torch.empty_like(x, memory_format=torch.contiguous_format)
    mean = x.new_empty(x.shape[:-1], dtype=torch.float32)
    return like, torch.empty_like(like), mean, torch.empty_like(mean)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_backward"))
def _fake_backward(
    grad_out: torch.Tensor,
    grad_sum: torch.Tensor,
    sum: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same for the gradients."""
    _check_devices(grad_out, grad_sum, sum, mean, rstd, weight)
    like = torch.empty_like(sum, memory_format=torch.contiguous_format)
    return like, torch.empty_like(weight), torch.empty_like(weight)


def _save(ctx, inputs, output):
    """Keep what the gradients need: the sum instead of its two parts."""
    _, _, weight, _, _ = inputs
    _, total, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    ctx.save_for_backward(total, mean, rstd, weight)


def _backward(ctx, grad_out, grad_sum, grad_mean, grad_rstd):
    """The gradients of x, residual, weight and bias. With create_graph=True the op that computes them refuses."""
    total, mean, rstd, weight = ctx.saved_tensors
    grad_out = torch.zeros_like(total) if grad_out is None else grad_out
    grad_sum = torch.zeros_like(total) if grad_sum is None else grad_sum
    of_input, of_weight, of_bias = ops.[[ module ]]_backward(grad_out, grad_sum, total, mean, rstd, weight)
    return of_input, of_input, of_weight, of_bias, None


torch.library.register_autograd(add_op_namespace_prefix("[[ module ]]"), _backward, setup_context=_save)


def [[ module ]](
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer norm of `x + residual` over the last dimension, and the sum itself.

    Args:
        x: float32, float16 or bfloat16 tensor of at least one dimension.
        residual: tensor of the same shape and type.
        weight: what the normal values are multiplied with: a vector of that type, as long as a row.
        bias: what is added then, likewise.
        eps: what is added to the variance of a row.

    Returns:
        The norm, which is made from the exact sum, and the rounded sum. Both can be differentiated.
    """
    out, total, _, _ = ops.[[ module ]](x, residual, weight, bias, eps)
    return out, total


__all__ = ["[[ module ]]"]
