"""A backend that torch does not have: what torch.mps and torch.xpu answer then."""

from __future__ import annotations


def _is_compiled() -> bool:
    """Whether torch has this backend."""
    return False


def is_available() -> bool:
    """Whether there is such a device."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0
