"""Ops of the kinds that a source for torch has."""

import torch

from ._ops import ops


def scaled(x: torch.Tensor, factor: float = 2.0, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`x * factor + bias`, in a new tensor."""
    return ops.scaled(x, factor, bias)


def add_(target: torch.Tensor, other: torch.Tensor, *, times: int = 1) -> None:
    """Add `other * times` in place."""
    ops.add_(target, other, times=times)


def halves(x: torch.Tensor, shape: list[int]) -> list[torch.Tensor]:
    """Both halves of a tensor, copied, each in a shape."""
    return ops.halves(x, shape)


def counted(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """How many elements and dimensions a tensor has."""
    return ops.counted(x)
