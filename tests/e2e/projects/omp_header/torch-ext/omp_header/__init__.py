"""A section without OpenMP that includes a header of one with it."""

from ._ops import ops

counts = ops.counts
