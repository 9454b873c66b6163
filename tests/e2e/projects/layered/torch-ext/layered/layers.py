"""Layers, which users import from here."""

import torch

from . import sub
from .sub import deep


class Twice(torch.nn.Module):
    """A layer."""

    def __init__(self, times: int = 1):
        super().__init__()
        self.times = times * deep.LEVEL // sub.LEVEL

    def forward(self, x):
        from . import twice

        for _ in range(self.times):
            x = twice(x)
        return x
