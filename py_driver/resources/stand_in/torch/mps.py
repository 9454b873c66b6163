"""torch.mps where torch has no such backend."""

from __future__ import annotations

from torch._facts import lacks


def _is_compiled() -> bool:
    """Whether torch has this backend."""
    return False


def is_available() -> bool:
    """Whether there is such a device."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
