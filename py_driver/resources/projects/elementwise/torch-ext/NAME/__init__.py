"""SiLU, x * sigmoid(x), as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(input: torch.Tensor) -> torch.Tensor:
    """What torch.compile runs in the place of the kernel: it knows the output's shape and type alone."""
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]_out"))
def _fake_out(out: torch.Tensor, input: torch.Tensor) -> None:
    """The same for a given output: it is only written. A tensor on `meta` ends up here as well, with any other."""
    torch._check(out.device == input.device, lambda: f"[[ module ]]: out is on {out.device}, input on {input.device}")


def _save(ctx, inputs, output):
    """Keep what the gradient needs."""
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    """The gradient of the input, in ops of torch: it can be differentiated again, and torch.compile fuses it."""
    (x,) = ctx.saved_tensors
    wide = x.float()
    sigmoid = torch.sigmoid(wide)
    return (grad.float() * sigmoid * (1 + wide * (1 - sigmoid))).to(x.dtype)


torch.library.register_autograd(add_op_namespace_prefix("[[ module ]]"), _backward, setup_context=_save)


def [[ module ]](x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`x * sigmoid(x)`.

    Args:
        x: float32, float16 or bfloat16 tensor of any shape and strides.
        out: contiguous tensor like `x` to write to, without a gradient; a new one by default.

    Returns:
        `out`.
    """
    if out is None:
        return ops.[[ module ]](x)
    ops.[[ module ]]_out(out, x)
    return out


__all__ = ["[[ module ]]"]
