"""SwiGLU, silu(gate) * up, as a kernel in Triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _swiglu(out, gate, up, count, BLOCK: tl.constexpr):
    # 64 bits, so that tensors of more than 2^31 elements have room.
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(gate + place, mask=inside).to(tl.float32)
    y = tl.load(up + place, mask=inside).to(tl.float32)
    tl.store(out + place, (x / (1.0 + tl.exp(-x)) * y).to(out.dtype.element_ty), mask=inside)


def [[ module ]](gate: torch.Tensor, up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`silu(gate) * up`.

    Args:
        gate: float32, float16 or bfloat16 tensor on a GPU, of any strides.
        up: tensor like `gate`.
        out: contiguous tensor like `gate` to write to; a new one by default.

    Returns:
        `out`.
    """
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.device != up.device:
        raise ValueError(f"[[ module ]]: gate is {gate.dtype} {tuple(gate.shape)}, up {up.dtype} {tuple(up.shape)}")
    if not gate.dtype.is_floating_point or gate.dtype == torch.float64:
        raise TypeError(f"[[ module ]]: no kernel for {gate.dtype}")
    if out is None:
        out = torch.empty_like(gate, memory_format=torch.contiguous_format)
    count = gate.numel()
    if count:
        with torch.cuda.device(gate.device):
            _swiglu[(triton.cdiv(count, _BLOCK),)](out, gate.contiguous(), up.contiguous(), count, BLOCK=_BLOCK)
    return out


__all__ = ["[[ module ]]"]
