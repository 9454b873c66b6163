"""One more than a tensor, in Python."""

import torch


def shifted(x: torch.Tensor) -> torch.Tensor:
    """The tensor, and one more."""
    return x + 1
