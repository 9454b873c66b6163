"""SwiGLU, silu(gate) * up, as a kernel in Triton."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import torch
import triton
import triton.language as tl

_DEFAULT = {"BLOCK": 1024, "num_warps": 4}


@triton.jit
def _swiglu(out, gate, up, count, BLOCK: tl.constexpr):
    # 64 bits, so that tensors of more than 2^31 elements have room.
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(gate + place, mask=inside).to(tl.float32)
    y = tl.load(up + place, mask=inside).to(tl.float32)
    tl.store(out + place, (x / (1.0 + tl.exp(-x)) * y).to(out.dtype.element_ty), mask=inside)


@functools.cache
def _tuned(device: int) -> dict[int, dict[str, int]]:
    """What `driver tune --apply` wrote for a GPU: a configuration for some numbers of elements."""
    name = torch.cuda.get_device_name(device).replace(" ", "_")
    file = Path(__file__).with_name("configs") / f"device_name={name}.json"
    return {int(count): one for count, one in json.loads(file.read_text()).items()} if file.exists() else {}


def _config(count: int, device: int) -> dict[str, int]:
    """The configuration of the nearest number of elements that was measured on a GPU."""
    tuned = _tuned(device)
    return tuned[min(tuned, key=lambda one: abs(one - count))] if tuned else _DEFAULT


def [[ module ]](
    gate: torch.Tensor, up: torch.Tensor, out: torch.Tensor | None = None, config: dict[str, int] | None = None
) -> torch.Tensor:
    """`silu(gate) * up`.

    Args:
        gate: float32, float16 or bfloat16 tensor on a GPU, of any strides.
        up: tensor like `gate`.
        out: contiguous tensor like `gate` to write to; a new one by default.
        config: `BLOCK`, elements of a program, and `num_warps`; what `driver tune` found for the GPU by default.

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
            config = config or _config(count, gate.device.index)
            blocks = (triton.cdiv(count, config["BLOCK"]),)
            _swiglu[blocks](out, gate.contiguous(), up.contiguous(), count, **config)
    return out


__all__ = ["[[ module ]]"]
