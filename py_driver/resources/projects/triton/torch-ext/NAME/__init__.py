"""SwiGLU, silu(gate) * up, as a kernel in Triton."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import torch

from . import _ops

try:
    from ._aot import kernels  # machine code of what aot.toml lists: no Triton is imported, nothing is compiled here
except ImportError:  # built by a builder that does not know aot.toml
    from . import kernels

_DEFAULT = {"BLOCK": 1024, "num_warps": 4}


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


def _launch(kernel, outputs, inputs, config: dict[str, int] | None = None) -> None:
    """Run a kernel over all elements of tensors that have the same shape."""
    first = inputs[0]
    if not first.numel():
        return
    with torch.cuda.device(first.device):
        config = config or _config(first.numel(), first.device.index)
        blocks = (-(-first.numel() // config["BLOCK"]),)
        kernel[blocks](*outputs, *(tensor.contiguous() for tensor in inputs), first.numel(), **config)


def _check(gate: torch.Tensor, up: torch.Tensor) -> None:
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.device != up.device:
        raise ValueError(f"[[ module ]]: gate is {gate.dtype} {tuple(gate.shape)}, up {up.dtype} {tuple(up.shape)}")
    if gate.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"[[ module ]]: no kernel for {gate.dtype}")


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    _check(gate, up)
    out = _like(gate)
    _launch(kernels.swiglu, [out], [gate, up])
    return out


def _gradients(grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    outputs = _like(gate), _like(up)
    _launch(kernels.swiglu_backward, outputs, [grad, gate, up])
    return outputs


def _save(ctx, inputs, output):
    """Keep what the gradients need."""
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    """The gradients of gate and up, by a kernel."""
    return _ops.ops.[[ module ]]_backward(grad, *ctx.saved_tensors)


def _no_second(ctx, *grads):
    """Refuse second derivatives: without a backward of its own torch 2.11 leaves them out, with a warning alone."""
    raise RuntimeError("[[ module ]]: there is no second derivative")


# Not by torch.library.custom_op: its first call loads all of torch.compile, which takes seconds. A fake is what
# torch.compile runs in the place of a kernel: it knows the shape and the type of an output alone. torch calls the
# GPUs of ROCm `cuda` too.
_OP = _ops.add_op_namespace_prefix("[[ module ]]")
torch.library.define(_OP, "(Tensor gate, Tensor up) -> Tensor")
torch.library.impl(_OP, "cuda", _forward)
torch.library.register_fake(_OP, lambda gate, up: _like(gate))
torch.library.register_autograd(_OP, _backward, setup_context=_save)

_OP_BACKWARD = _ops.add_op_namespace_prefix("[[ module ]]_backward")
torch.library.define(_OP_BACKWARD, "(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)")
torch.library.impl(_OP_BACKWARD, "cuda", _gradients)
torch.library.register_fake(_OP_BACKWARD, lambda grad, gate, up: (_like(gate), _like(up)))
torch.library.register_autograd(_OP_BACKWARD, _no_second)


def [[ module ]](
    gate: torch.Tensor, up: torch.Tensor, out: torch.Tensor | None = None, config: dict[str, int] | None = None
) -> torch.Tensor:
    """`silu(gate) * up`.

    Args:
        gate: float32, float16 or bfloat16 tensor on a GPU, of any strides.
        up: tensor like `gate`.
        out: contiguous tensor like `gate` to write to, without a gradient; a new one by default.
        config: `BLOCK`, elements of a program, and `num_warps`, without a gradient; what `driver tune` found for the
            GPU by default.

    Returns:
        `out`.
    """
    if out is None and config is None:
        return _ops.ops.[[ module ]](gate, up)
    _check(gate, up)
    out = _like(gate) if out is None else out
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (out, gate, up)):
        raise RuntimeError(
            "[[ module ]]: there is no backward with `out` or `config`, but a tensor requires grad: call it under "
            "torch.no_grad(), pass tensor.detach(), or leave both out"
        )
    _launch(kernels.swiglu, [out], [gate, up], config)
    return out


__all__ = ["[[ module ]]"]
