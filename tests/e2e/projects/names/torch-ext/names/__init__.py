"""An extension that does nothing, and data files of all kinds of names."""

from . import _ops

__all__ = ["_ops"]
