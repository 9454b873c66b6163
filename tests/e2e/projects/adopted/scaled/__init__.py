"""Scaled ops."""

import torch

import scaled.inner.more
from scaled._C import backend, scale
from scaled.inner import more as other


def triple(x: torch.Tensor) -> torch.Tensor:
    """Three times `x`."""
    return scaled.inner.more.half(scale(x, scale=3.0))


assert other is scaled.inner.more
