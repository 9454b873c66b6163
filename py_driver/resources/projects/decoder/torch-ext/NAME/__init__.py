"""What a decoder layer computes beside its matrix products: RMSNorm, RoPE and SwiGLU, with gradients."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


def _dense(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


[% include "projects/parts/check_devices.py" %]


@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _fake_rms_norm(x, weight, eps):
    """What torch.compile runs in the place of the kernel: it knows the outputs' shapes alone. So do all of these."""
    _check_devices(x, weight)
    return _dense(x), x.new_empty(x.shape[:-1], dtype=torch.float32)


@torch.library.register_fake(add_op_namespace_prefix("add_rms_norm"))
def _fake_add_rms_norm(x, residual, weight, eps):
    _check_devices(x, residual, weight)
    return _dense(x), _dense(x), x.new_empty(x.shape[:-1], dtype=torch.float32)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm_backward"))
def _fake_rms_norm_backward(grad_out, grad_sum, total, rstd, weight):
    _check_devices(grad_out, grad_sum, total, rstd, weight)
    return _dense(total), _dense(weight)


@torch.library.register_fake(add_op_namespace_prefix("rope"))
def _fake_rope(q, k, cos, sin, interleaved, inverse):
    _check_devices(q, k, cos, sin)
    return tuple(x.new_empty((x.shape[0], x.shape[2], x.shape[1], x.shape[3])).transpose(1, 2) for x in (q, k))


@torch.library.register_fake(add_op_namespace_prefix("swiglu"))
def _fake_swiglu(gate, up):
    _check_devices(gate, up)
    return _dense(gate)


@torch.library.register_fake(add_op_namespace_prefix("swiglu_backward"))
def _fake_swiglu_backward(grad_out, gate, up):
    _check_devices(grad_out, gate, up)
    return _dense(gate), _dense(gate)


@torch.library.register_fake(add_op_namespace_prefix("swiglu_packed"))
def _fake_swiglu_packed(x):
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@torch.library.register_fake(add_op_namespace_prefix("swiglu_packed_backward"))
def _fake_swiglu_packed_backward(grad_out, x):
    _check_devices(grad_out, x)
    return _dense(x)


def _save_rms_norm(ctx, inputs, output):
    x, weight, _ = inputs
    _, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(x, rstd, weight)


def _rms_norm_backward(ctx, grad_out, grad_rstd):
    """The gradients of x and weight. With create_graph=True the op that computes them refuses."""
    x, rstd, weight = ctx.saved_tensors
    of_x, of_weight = ops.rms_norm_backward(grad_out, None, x, rstd, weight)
    return of_x, of_weight, None


def _save_add_rms_norm(ctx, inputs, output):
    """Keep the sum instead of its two parts."""
    _, _, weight, _ = inputs
    _, total, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(total, rstd, weight)


def _add_rms_norm_backward(ctx, grad_out, grad_sum, grad_rstd):
    """The gradients of x, residual and weight, likewise."""
    total, rstd, weight = ctx.saved_tensors
    grad_out = torch.zeros_like(total) if grad_out is None else grad_out
    of_x, of_weight = ops.rms_norm_backward(grad_out, grad_sum, total, rstd, weight)
    return of_x, of_x, of_weight, None


def _save_rope(ctx, inputs, output):
    _, _, cos, sin, ctx.interleaved, ctx.inverse = inputs
    ctx.save_for_backward(cos, sin)


def _rope_backward(ctx, grad_q, grad_k):
    """The gradients of q and k: turned back. The op is linear in both, so this can be differentiated again."""
    if any(ctx.needs_input_grad[2:4]):
        raise RuntimeError("[[ module ]]: rope has no backward for cos and sin, but one requires grad")
    cos, sin = ctx.saved_tensors
    of_q, of_k = ops.rope(grad_q, grad_k, cos, sin, ctx.interleaved, not ctx.inverse)
    return of_q, of_k, None, None, None, None


def _save_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _swiglu_backward(ctx, grad_out):
    """The gradients of gate and up. With create_graph=True the op that computes them refuses."""
    return ops.swiglu_backward(grad_out, *ctx.saved_tensors)


def _swiglu_packed_backward(ctx, grad_out):
    """The gradient of both in one tensor, likewise."""
    return ops.swiglu_packed_backward(grad_out, *ctx.saved_tensors)


_register = torch.library.register_autograd
_register(add_op_namespace_prefix("rms_norm"), _rms_norm_backward, setup_context=_save_rms_norm)
_register(add_op_namespace_prefix("add_rms_norm"), _add_rms_norm_backward, setup_context=_save_add_rms_norm)
_register(add_op_namespace_prefix("rope"), _rope_backward, setup_context=_save_rope)
_register(add_op_namespace_prefix("swiglu"), _swiglu_backward, setup_context=_save_inputs)
_register(add_op_namespace_prefix("swiglu_packed"), _swiglu_packed_backward, setup_context=_save_inputs)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x` over the root of the mean of its squares, along the last dimension.

    Args:
        x: float32, float16 or bfloat16 tensor of at least one dimension. Rows may lie apart: they are not copied.
        weight: what the result is multiplied with: a vector of that type, as long as a row.
        eps: what is added to the mean of squares.

    Returns:
        A dense tensor like `x`, rounded once.
    """
    return ops.rms_norm(x, weight, eps)[0]


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of `x + residual`, and the sum itself, in one pass over memory.

    Args:
        x: float32, float16 or bfloat16 tensor of at least one dimension. Rows may lie apart: they are not copied.
        residual: tensor of the same shape and type, likewise.
        weight: what the result is multiplied with: a vector of that type, as long as a row.
        eps: what is added to the mean of squares.

    Returns:
        The norm, which is made from the exact sum, and the rounded sum. Both can be differentiated.
    """
    out, total, _ = ops.add_rms_norm(x, residual, weight, eps)
    return out, total


def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys with rotary positions: each pair (a, b) becomes (a cos - b sin, b cos + a sin).

    Args:
        q: `[batch, heads, tokens, head size]` of float32, float16 or bfloat16, in memory of any order as long as a head
            is dense.
        k: likewise; it may have another number of heads.
        cos: cosine of the angle of each pair: float32 `[batch or 1, tokens, head size / 2]`. No gradient. Of what
            transformers calls `cos`, this is `cos[..., : head_size // 2].float()`.
        sin: the sine, likewise.
        interleaved: whether a pair is elements 2 i and 2 i + 1 of a head; else it is i and i + head size / 2, as
            Llama has it in transformers.

    Returns:
        Both, turned, each element rounded once.
    """
    return ops.rope(q, k, cos, sin, interleaved, False)


def swiglu(gate: torch.Tensor, up: torch.Tensor | None = None) -> torch.Tensor:
    """`silu(gate) * up`, rounded once.

    Args:
        gate: float32, float16 or bfloat16 tensor. Rows may lie apart, as halves of longer ones: they are not copied.
        up: tensor of the same shape and type. None if each row of `gate` has both, the gate first; the gradient is one
            tensor then, too.

    Returns:
        A dense tensor like `gate`, or with half of its columns.
    """
    return ops.swiglu_packed(gate) if up is None else ops.swiglu(gate, up)


__all__ = ["add_rms_norm", "rms_norm", "rope", "swiglu"]
