import torch

from ._ops import ops


def cutlass_gemm(a, b):
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    ops.cutlass_gemm(out, a, b)
    return out
