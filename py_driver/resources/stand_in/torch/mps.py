"""torch.mps where torch has no such backend."""

from __future__ import annotations

from torch._absent import _is_compiled, device_count, is_available
from torch._facts import lacks

__all__ = ["_is_compiled", "device_count", "is_available"]


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
