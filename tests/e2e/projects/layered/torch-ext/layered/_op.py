"""The op, compiled."""

from ._ops import ops

twice = ops.twice
