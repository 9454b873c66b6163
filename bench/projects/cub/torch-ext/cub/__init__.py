"""Algorithms of CUB: heavy headers for the benchmark."""

from ._ops import ops

sort = ops.sort
sum = ops.sum  # noqa: A001  (what torch calls it)

__all__ = ["sort", "sum"]
