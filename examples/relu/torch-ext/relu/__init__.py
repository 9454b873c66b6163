"""ReLU as a kernel of its own: the smallest complete example."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("relu"))
def _fake(x: torch.Tensor) -> torch.Tensor:
    """What torch.compile runs in the place of the kernel: it knows the output's shape and type alone."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.register_fake(add_op_namespace_prefix("relu_out"))
def _fake_out(out: torch.Tensor, x: torch.Tensor) -> None:
    """The same for a given output: it is only written. A tensor on `meta` ends up here as well, with any other."""
    torch._check(out.device == x.device, lambda: f"relu: out is on {out.device}, input on {x.device}")


def _save(ctx, inputs, output):  # noqa: ARG001  (torch passes all by name)
    """Keep what the gradient needs: the output alone."""
    ctx.save_for_backward(output)


def _backward(ctx, grad):
    """The gradient of the input, as torch.relu has it: 0 where the output is 0; it passes where that is NaN."""
    (out,) = ctx.saved_tensors
    return grad.masked_fill(out <= 0, 0)


torch.library.register_autograd(add_op_namespace_prefix("relu"), _backward, setup_context=_save)


def relu(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`x` where it is positive or NaN, else 0.

    Args:
        x: float32, float16 or bfloat16 tensor of any shape and strides.
        out: contiguous tensor like `x` to write to, without a gradient; a new one by default.

    Returns:
        `out`.
    """
    if out is None:
        return ops.relu(x)
    ops.relu_out(out, x)
    return out


__all__ = ["relu"]
