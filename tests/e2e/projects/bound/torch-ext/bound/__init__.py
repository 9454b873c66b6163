"""Functions that pybind11 binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._ops import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

Counter = ops.Counter


def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    """The tensor times a factor."""
    return ops.scale(x, factor)


def sizes(tensors: dict[str, Tensor]) -> dict[str, list[int]]:
    """The sizes of tensors, by name."""
    return ops.sizes(tensors)


def call(callback: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """What a callback makes of a tensor."""
    return ops.call(callback, x)
