import torch

from scaled import _C as compiled


def half(x: torch.Tensor) -> torch.Tensor:
    return compiled.scale(x, 0.25)
