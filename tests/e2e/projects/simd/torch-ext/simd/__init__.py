"""Sums of integers, with the vector instructions of either CPU."""

from ._ops import ops

dot, sum_of = ops.dot, ops.sum

__all__ = ["dot", "sum_of"]
