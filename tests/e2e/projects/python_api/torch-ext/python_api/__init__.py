"""A binding that calls Python, and sources that include torch/extension.h as quick work does."""

from ._ops import ops

__all__ = ["ops"]
