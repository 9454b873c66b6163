"""Ops registered by a setup.py's extension, whose sources are those of tests/e2e/projects/portable."""

import torch

from . import _C


def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    """`x * factor`."""
    return torch.ops.portable_ext.scaled(x, factor)
