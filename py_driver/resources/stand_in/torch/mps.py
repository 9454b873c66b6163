"""torch.mps where torch has no such backend."""

from __future__ import annotations

from typing import NoReturn

from torch._absent import _is_compiled, device_count, is_available
from torch._facts import lacks

__all__ = [
    "_is_compiled",
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "is_available",
    "recommended_max_memory",
]


def current_allocated_memory() -> NoReturn:
    """Fail as torch does without this backend; projects ask so whether it is there."""
    _fail("getCurrentAllocatedMemory")


def driver_allocated_memory() -> NoReturn:
    """Fail, likewise."""
    _fail("getDriverAllocatedMemory")


def recommended_max_memory() -> NoReturn:
    """Fail, likewise."""
    _fail("getRecommendedMaxMemory")


def _fail(name: str) -> NoReturn:
    raise RuntimeError(f"Cannot execute {name}() without MPS backend.")


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
