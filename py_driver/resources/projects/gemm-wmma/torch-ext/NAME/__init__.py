"""A matrix product on tensor cores, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(a: torch.Tensor, b: torch.Tensor, narrow_sums: bool) -> torch.Tensor:
    """What torch.compile runs in the place of the kernel: it knows the output's shape and type alone."""
    torch._check(a.device == b.device, lambda: "[[ module ]]: tensors are on several devices")
    return a.new_empty(a.shape[0], b.shape[1], dtype=torch.int32 if a.dtype == torch.int8 else a.dtype)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_out"))
def _fake_out(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, narrow_sums: bool) -> None:
    """The same for a given output: it is only written. A tensor on `meta` ends up here as well, with any other."""
    torch._check(a.device == b.device == out.device, lambda: "[[ module ]]: tensors are on several devices")


def _save(ctx, inputs, output):
    """Keep what the gradients need."""
    a, b, _ = inputs
    ctx.save_for_backward(a, b)


def _backward(ctx, grad):
    """The gradients of a and b: two more products, which can be differentiated again. Their sums are never narrow."""
    a, b = ctx.saved_tensors
    of_a = ops.[[ module ]](grad, b.t(), False) if ctx.needs_input_grad[0] else None
    of_b = ops.[[ module ]](a.t(), grad, False) if ctx.needs_input_grad[1] else None
    return of_a, of_b, None


torch.library.register_autograd(add_op_namespace_prefix("[[ module ]]"), _backward, setup_context=_save)


def [[ module ]](
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None, narrow_sums: bool = False
) -> torch.Tensor:
    """`a @ b`.

    Args:
        a: matrix of float16, bfloat16 or int8.
        b: matrix of the same type, with as many rows as `a` has columns. The transpose of a contiguous matrix is not
            copied.
        out: contiguous matrix to write to, of the same type, or int32 for int8, without a gradient; a new one by
            default.
        narrow_sums: whether sums on a GPU are float16, for float16 only: far less exact.

    Returns:
        `out`. Sums are float32, or int32 for int8, but for `narrow_sums`.
    """
    if out is None:
        return ops.[[ module ]](a, b, narrow_sums)
    ops.[[ module ]]_out(out, a, b, narrow_sums)
    return out


__all__ = ["[[ module ]]"]
