"""torch.distributed of a single process."""

from __future__ import annotations

from torch._facts import lacks


def is_available() -> bool:
    """Whether torch has it."""
    return True


def is_initialized() -> bool:
    """Whether processes have met: they have not."""
    return False


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
