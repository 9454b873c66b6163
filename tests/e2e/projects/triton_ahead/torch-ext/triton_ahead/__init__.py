"""A kernel whose machine code is compiled ahead of time."""

import torch

from ._aot import kernels


def scale(x, factor):
    out = torch.empty_like(x)
    kernels.scale[(-(-x.numel() // 64),)](out, x, x.numel(), factor, BLOCK=64)
    return out
