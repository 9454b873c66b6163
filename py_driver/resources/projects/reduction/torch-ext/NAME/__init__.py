"""Softmax of rows, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

WARP, SHARED, BLOCK = range(3)
"""How a row is reduced on a GPU: see csrc/[[ module ]].h."""


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(input: torch.Tensor, variant: int) -> torch.Tensor:
    """What torch.compile runs in the place of the kernel: it knows the output's shape and type alone."""
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_out"))
def _fake_out(out: torch.Tensor, input: torch.Tensor, variant: int) -> None:
    """The same for a given output: it is only written. A tensor on `meta` ends up here as well, with any other."""
    torch._check(out.device == input.device, lambda: f"[[ module ]]: out is on {out.device}, input on {input.device}")


def _save(ctx, inputs, output):
    """Keep what the gradient needs: the output alone."""
    ctx.save_for_backward(output)


def _backward(ctx, grad):
    """The gradient of the input, in ops of torch: it can be differentiated again, and torch.compile fuses it."""
    (out,) = ctx.saved_tensors
    wide = out.float()
    part = grad.float() * wide
    return (part - wide * part.sum(-1, keepdim=True)).to(out.dtype), None


torch.library.register_autograd(add_op_namespace_prefix("[[ module ]]"), _backward, setup_context=_save)


def [[ module ]](x: torch.Tensor, out: torch.Tensor | None = None, variant: int = -1) -> torch.Tensor:
    """The softmax of the last dimension.

    Args:
        x: float32, float16 or bfloat16 tensor of at least one dimension.
        out: contiguous tensor like `x` to write to, without a gradient; a new one by default.
        variant: WARP, SHARED or BLOCK; -1 takes the fastest that is known.

    Returns:
        `out`.
    """
    if out is None:
        return ops.[[ module ]](x, variant)
    ops.[[ module ]]_out(out, x, variant)
    return out


__all__ = ["BLOCK", "SHARED", "WARP", "[[ module ]]"]
