"""2 x + 1, of two other kernels: one of them compiled."""

import torch
from kernels import get_kernel_dep

_doubled = get_kernel_dep("tests/doubled")
_shifted = get_kernel_dep("tests/shifted")


def combined(x: torch.Tensor) -> torch.Tensor:
    """Twice the tensor, and one more."""
    return _shifted.shifted(_doubled.doubled(x))
