"""Layer normalisation: a heavy family of templates for the benchmark."""

from ._ops import ops

norm = ops.norm
add_norm = ops.add_norm
gradient = ops.gradient

__all__ = ["add_norm", "gradient", "norm"]
