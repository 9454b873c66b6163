"""Ops whose code passes through every phase of nvcc."""

from ._ops import ops

sum = ops.sum
sort = ops.sort
affine = ops.affine

__all__ = ["affine", "sort", "sum"]
