"""A matrix product on tensor cores, as a kernel of its own."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, narrow_sums: bool) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""


def [[ module ]](
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None, narrow_sums: bool = False
) -> torch.Tensor:
    """`a @ b`.

    Args:
        a: matrix of float16, bfloat16 or int8.
        b: matrix of the same type, with as many rows as `a` has columns. The transpose of a contiguous matrix is not
            copied.
        out: contiguous matrix to write to, of the same type, or int32 for int8; a new one by default.
        narrow_sums: whether sums are float16, for float16 only: far less exact.

    Returns:
        `out`, without a gradient. Sums are float32, or int32 for int8, but for `narrow_sums`.
    """
    if out is None:
        dtype = torch.int32 if a.dtype == torch.int8 else a.dtype
        out = torch.empty(a.shape[0], b.shape[-1], dtype=dtype, device=a.device)
    ops.[[ module ]](out, a, b, narrow_sums)
    return out


__all__ = ["[[ module ]]"]
