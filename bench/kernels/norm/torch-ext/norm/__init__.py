"""Layer normalisation: a heavy family of templates for the benchmark."""

from ._ops import ops

norm = ops.norm

__all__ = ["norm"]
