"""Softmax of scaled rows, softmax(scale * x), as kernels in Triton."""

from __future__ import annotations

import torch

from . import _ops

try:
    from ._aot import kernels  # machine code of what aot.toml lists: no Triton is imported, nothing is compiled here
except ImportError:  # built by a builder that does not know aot.toml
    from . import kernels

_ROWS = {256: 1, 1024: 4, 8192: 16}
"""How many warps compute a row of up to so many elements: the configurations of aot.toml."""

_LONG = {"BLOCK": 4096, "num_warps": 8}


def _launch(name: str, outputs, inputs, scale: float, config: dict[str, int] | None = None) -> None:
    """Run a kernel over all rows, the one that keeps a row in registers if there is one for that length."""
    first = inputs[0]
    if not first.numel():
        return
    columns = first.shape[-1] if first.dim() else 1
    if not config:
        fitting = ({"BLOCK": block, "num_warps": warps} for block, warps in _ROWS.items() if columns <= block)
        config = next(fitting, _LONG)
    kernel = getattr(kernels, name if columns <= config["BLOCK"] else f"{name}_long")
    with torch.cuda.device(first.device):
        grid = (first.numel() // columns,)
        kernel[grid](*outputs, *(tensor.contiguous() for tensor in inputs), columns, float(scale), **config)


def _check(x: torch.Tensor) -> None:
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"[[ module ]]: no kernel for {x.dtype}")
    if not x.is_cuda:
        raise ValueError(f"[[ module ]]: x is on {x.device}, not on a GPU")


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _forward(x: torch.Tensor, scale: float) -> torch.Tensor:
    _check(x)
    out = _like(x)
    _launch("softmax", [out], [x], scale)
    return out


def _gradient(grad: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    of_x = _like(y)
    _launch("softmax_backward", [of_x], [grad, y], scale)
    return of_x


def _save(ctx, inputs, output):
    """Keep what the gradient needs: the output, and not the input."""
    ctx.scale = inputs[1]
    ctx.save_for_backward(output)


def _backward(ctx, grad):
    """The gradient of x, by a kernel."""
    return _ops.ops.[[ module ]]_backward(grad, *ctx.saved_tensors, ctx.scale), None


def _no_second(ctx, *grads):
    """Refuse second derivatives: without a backward of its own torch 2.11 leaves them out, with a warning alone."""
    raise RuntimeError("[[ module ]]: there is no second derivative")


# Not by torch.library.custom_op: its first call loads all of torch.compile, which takes seconds. A fake is what
# torch.compile runs in the place of a kernel: it knows the shape and the type of an output alone. torch calls the
# GPUs of ROCm `cuda` too.
_OP = _ops.add_op_namespace_prefix("[[ module ]]")
torch.library.define(_OP, "(Tensor x, float scale) -> Tensor")
torch.library.impl(_OP, "cuda", _forward)
torch.library.register_fake(_OP, lambda x, scale: _like(x))
torch.library.register_autograd(_OP, _backward, setup_context=_save)

_OP_BACKWARD = _ops.add_op_namespace_prefix("[[ module ]]_backward")
torch.library.define(_OP_BACKWARD, "(Tensor grad, Tensor y, float scale) -> Tensor")
torch.library.impl(_OP_BACKWARD, "cuda", _gradient)
torch.library.register_fake(_OP_BACKWARD, lambda grad, y, scale: _like(y))
torch.library.register_autograd(_OP_BACKWARD, _no_second)


def [[ module ]](
    x: torch.Tensor, scale: float = 1.0, out: torch.Tensor | None = None, config: dict[str, int] | None = None
) -> torch.Tensor:
    """`softmax(scale * x)` of rows: along the last dimension.

    Args:
        x: float32, float16 or bfloat16 tensor on a GPU, of any strides.
        scale: what each element is multiplied with. It has no gradient.
        out: contiguous tensor like `x` to write to, without a gradient; a new one by default.
        config: `BLOCK` (a power of two) and `num_warps`; by default they follow from the length of a row. A row that is
            longer than `BLOCK` is read twice. A call with `config` has no gradient.

    Returns:
        `out`.
    """
    if out is None and config is None:
        return _ops.ops.[[ module ]](x, scale)
    _check(x)
    out = _like(x) if out is None else out
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device or not out.is_contiguous():
        raise ValueError(f"[[ module ]]: out is {out.dtype} {tuple(out.shape)}, x {x.dtype} {tuple(x.shape)}")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (out, x)):
        raise RuntimeError(
            "[[ module ]]: there is no backward with `out` or `config`, but a tensor requires grad: call it under "
            "torch.no_grad(), pass tensor.detach(), or leave both out"
        )
    _launch("softmax", [out], [x], scale, config)
    return out


__all__ = ["[[ module ]]"]
