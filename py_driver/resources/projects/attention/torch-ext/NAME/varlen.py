"""Attention of sequences of several lengths whose rows lie one after another, with its gradients."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_varlen"))
def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What torch.compile runs in the place of the kernel: it knows the outputs' shapes alone."""
    same = q.device == k.device == v.device == cu_seqlens_q.device == cu_seqlens_k.device
    torch._check(same, lambda: "[[ module ]]: tensors are on several devices")
    rows, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((heads, rows), dtype=torch.float32)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_varlen_backward"))
def _fake_backward(
    grad_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same for the gradients."""
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx, inputs, output):
    """Keep what the gradients need: not the scores, which the backward computes again."""
    q, k, v, cu_seqlens_q, cu_seqlens_k, *ctx.rest = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k)


def _backward(ctx, grad_out, grad_lse):
    """The gradients of q, k and v. With create_graph=True the op that computes them refuses."""
    grads = ops.[[ module ]]_varlen_backward(grad_out, *ctx.saved_tensors, *ctx.rest)
    return *grads, None, None, None, None, None, None


torch.library.register_autograd(add_op_namespace_prefix("[[ module ]]_varlen"), _backward, setup_context=_save)


def [[ module ]]_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`softmax(scale * q @ k^T) @ v` for each head of each sequence: sequences see nothing of each other.

    No length is read on the host, so calls on a GPU do not wait, and a CUDA graph may be replayed with other offsets.

    Args:
        q: float32, float16 or bfloat16 tensor [rows, heads, width], with a width of at most 256: the queries of all
            sequences, one after another.
        k: tensor [rows, kv_heads, width] of the same type, where `heads` is a multiple of `kv_heads`: so many heads of
            q share one of k.
        v: tensor like k.
        cu_seqlens_q: int32 tensor [sequences + 1] on the same device: sequence i has the rows from `cu_seqlens_q[i]` to
            `cu_seqlens_q[i + 1]` of q. It begins with 0 and does not fall; on a GPU nothing checks this, and offsets
            that are wrong give wrong results, but read and write nothing outside of the tensors. Rows after the last
            sequence have an output of 0, and get gradients of 0.
        cu_seqlens_k: the same for k and v.
        max_seqlen_q: at least the length of the longest sequence of q, as flash_attn_varlen_func takes it. The CPU
            checks it; on a GPU the kernels need no more than the offsets.
        max_seqlen_k: the same for k and v.
        causal: whether query i of a sequence sees its keys up to `i + keys - queries` alone, so that the last one sees
            all of its keys.
        scale: positive number; `width ** -0.5` by default.
        return_lse: whether to return the logarithm of the sum of exponentials, too.

    Returns:
        A contiguous tensor like q; 0 for a query that sees no key. With `return_lse` also a float32 tensor
        [heads, rows], which cannot be differentiated. On a Hopper GPU two runs may give gradients of q that differ in
        their last bits, unless `torch.use_deterministic_algorithms(True)` asks for the slower kernel that always gives
        the same.
    """
    out, lse = ops.[[ module ]]_varlen(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        causal,
        q.shape[-1] ** -0.5 if scale is None else scale,
    )
    return (out, lse) if return_lse else out
