import torch
import triton
import triton.language as tl

from ._ops import add_op_namespace_prefix, ops


@triton.jit
def _kernel(out, x, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.maximum(tl.load(x + at, mask=inside), 0.0), mask=inside)


@torch.library.triton_op(add_op_namespace_prefix("relu"), mutates_args=())
def _relu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    count = x.numel()
    torch.library.wrap_triton(_kernel)[(triton.cdiv(count, 1024),)](out, x, count, BLOCK=1024)
    return out


def relu(x):
    return ops.relu(x)
