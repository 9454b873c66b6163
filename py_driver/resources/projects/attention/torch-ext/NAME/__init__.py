"""Attention, `softmax(scale * q @ k^T) @ v`, with its gradients, as kernels of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops
from .varlen import [[ module ]]_varlen


def _empty_rows(like: torch.Tensor) -> torch.Tensor:
    """A tensor as the kernels make it: all heads of a row lie side by side."""
    batch, heads, rows, width = like.shape
    return like.new_empty(batch, rows, heads, width).transpose(1, 2)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What torch.compile runs in the place of the kernel: it knows the outputs' shapes alone."""
    torch._check(q.device == k.device == v.device, lambda: "[[ module ]]: tensors are on several devices")
    return _empty_rows(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_backward"))
def _fake_backward(
    grad_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same for the gradients."""
    return _empty_rows(q), _empty_rows(k), _empty_rows(v)


def _save(ctx, inputs, output):
    """Keep what the gradients need: not the scores, which the backward computes again."""
    q, k, v, ctx.causal, ctx.scale = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, out, lse)


def _backward(ctx, grad_out, grad_lse):
    """The gradients of q, k and v. With create_graph=True the op that computes them refuses."""
    q, k, v, out, lse = ctx.saved_tensors
    grads = ops.[[ module ]]_backward(grad_out, q, k, v, out, lse, ctx.causal, ctx.scale)
    return *grads, None, None


torch.library.register_autograd(add_op_namespace_prefix("[[ module ]]"), _backward, setup_context=_save)


def [[ module ]](
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`softmax(scale * q @ k^T) @ v` for each head, without the scores in memory.

    Args:
        q: float32, float16 or bfloat16 tensor [batch, heads, queries, width], with a width of at most 256. A view of
            [batch, queries, heads, width] is not copied.
        k: tensor [batch, kv_heads, keys, width] of the same type, where `heads` is a multiple of `kv_heads`: so many
            heads of q share one of k.
        v: tensor like k.
        causal: whether query i sees the keys up to `i + keys - queries` alone, so that the last one sees all.
        scale: positive number; `width ** -0.5` by default.
        return_lse: whether to return the logarithm of the sum of exponentials, too.

    Returns:
        A tensor like q that lies in memory as [batch, queries, heads, width]; 0 for a query that sees no key. With
        `return_lse` also a float32 tensor [batch, heads, queries], which cannot be differentiated. On a Hopper GPU two
        runs may give gradients of q that differ in their last bits, unless `torch.use_deterministic_algorithms(True)`
        asks for the slower kernel that always gives the same.
    """
    out, lse = ops.[[ module ]](q, k, v, causal, q.shape[-1] ** -0.5 if scale is None else scale)
    return (out, lse) if return_lse else out


__all__ = ["[[ module ]]", "[[ module ]]_varlen"]
