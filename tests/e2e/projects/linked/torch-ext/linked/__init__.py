"""Ops whose device code calls that of another file."""

from ._ops import ops

__all__ = ["ops"]
