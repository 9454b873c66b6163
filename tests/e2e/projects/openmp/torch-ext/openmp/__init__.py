"""A kernel for the CPU with OpenMP."""

from ._ops import ops

dot, threads, team = ops.dot, ops.threads, ops.team

__all__ = ["dot", "team", "threads"]
