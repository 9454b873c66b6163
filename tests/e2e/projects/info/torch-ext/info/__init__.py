"""An extension that hands a std::string from a section without torch to its binding as soon as it is loaded."""

from . import _ops

__all__ = ["_ops"]
