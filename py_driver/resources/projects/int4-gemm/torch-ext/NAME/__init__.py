"""A matrix product with weights of four bits, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""
    same = out.device == x.device == weight.device == scales.device
    torch._check(same, lambda: "[[ module ]]: tensors are on several devices")


def quantize(weight: torch.Tensor, group: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Round a weight to integers from -8 to 7, with a scale for each group of a row.

    Args:
        weight: matrix of float16 or bfloat16, a row for each output, as `torch.nn.Linear` has it.
        group: how many values have one scale: a multiple of 32 that divides the columns.

    Returns:
        `weight` and `scales` for `[[ module ]]`: two integers in a byte, the first one in the low half, and a matrix
        with a column for each group.
    """
    groups = weight.float().unflatten(1, (-1, group))
    facts = torch.finfo(weight.dtype)
    scales = (groups.abs().amax(-1) / 7).clamp(min=facts.smallest_normal * facts.eps).to(weight.dtype)
    values = (groups / scales.float()[..., None]).round().clamp(-8, 7).flatten(1).to(torch.int8)
    halves = values.view(torch.uint8) & 0xF
    return halves[:, 0::2] | halves[:, 1::2] << 4, scales


def [[ module ]](
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`x @ w.T`, where `w` is what `weight` and `scales` stand for.

    Args:
        x: matrix of float16 or bfloat16.
        weight: matrix of uint8, a row for each column of the output, with half as many columns as `x` has: see
            `quantize`.
        scales: matrix of the type of `x`, a row for each row of `weight` and a column for each group.
        out: contiguous matrix to write to, of the type of `x`; a new one by default.

    Returns:
        `out`. Sums are float32. On a GPU, if `x` has more than 64 rows, the weights are rounded to its type first, and
        torch multiplies them if it is no Hopper GPU. There is no backward: an input that requires grad is an error,
        but under torch.no_grad().
    """
    if out is None:
        out = x.new_empty(x.shape[0], weight.shape[0])
    ops.[[ module ]](out, x, weight, scales)
    return out


__all__ = ["[[ module ]]", "quantize"]
