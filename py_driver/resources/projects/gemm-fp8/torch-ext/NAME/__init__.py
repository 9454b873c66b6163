"""A product of float8 matrices with scales, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(
    a: torch.Tensor, b: torch.Tensor, a_scales: torch.Tensor, b_scales: torch.Tensor, dtype: torch.dtype, fast: bool
) -> torch.Tensor:
    """What torch.compile runs in the place of the kernel: it knows the output's shape and type alone."""
    same = a.device == b.device == a_scales.device == b_scales.device
    torch._check(same, lambda: "[[ module ]]: tensors are on several devices")
    return a.new_empty(a.shape[0], b.shape[1], dtype=dtype)


def quantize(x: torch.Tensor, block: tuple[int, int] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Round a matrix to float8, with a scale for each block of it.

    Args:
        x: matrix of floats.
        block: rows and columns that have one scale: (1, 128) for `a` and (128, 128) for a weight in a product of
            blocks, (1, x.shape[1]) for a scale for each row. All of the matrix has one by default.

    Returns:
        The matrix in float8_e4m3fn, and a matrix of the scales in float32: the largest value of a block is 448.
    """
    rows, columns = x.shape
    high, wide = (max(size, 1) for size in block or x.shape)
    padded = torch.nn.functional.pad(x.float(), (0, -columns % wide, 0, -rows % high))
    blocks = padded.unflatten(1, (-1, wide)).unflatten(0, (-1, high))
    facts = torch.finfo(torch.float8_e4m3fn)
    scales = (blocks.abs().amax((1, 3)) / facts.max).clamp(min=torch.finfo(torch.float32).tiny)
    values = (blocks / scales[:, None, :, None]).flatten(2, 3).flatten(0, 1)[:rows, :columns]
    return values.clamp(facts.min, facts.max).to(torch.float8_e4m3fn), scales


def [[ module ]](
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    dtype: torch.dtype = torch.bfloat16,
    fast: bool = False,
) -> torch.Tensor:
    """`(a * a_scales) @ (b * b_scales)`.

    Args:
        a: matrix of float8_e4m3fn.
        b: matrix of float8_e4m3fn, with as many rows as `a` has columns. The transpose of a contiguous matrix is not
            copied.
        a_scales: float32: one, [rows, 1], or [rows, blocks of the depth], a block being 128.
        b_scales: float32: one, [1, columns], or, if `a_scales` has them too, [blocks of the depth, blocks of columns].
        dtype: of the output: float16, bfloat16 or float32.
        fast: whether sums may stay in the tensor cores of a Hopper GPU, which have some 14 bits for them. By default
            they go to sums of float32 after 128 products. Not for blocks.

    Returns:
        The product. There is no backward: an input that requires grad is an error, but under torch.no_grad().
    """
    return ops.[[ module ]](a, b, a_scales, b_scales, dtype, fast)


__all__ = ["[[ module ]]", "quantize"]
