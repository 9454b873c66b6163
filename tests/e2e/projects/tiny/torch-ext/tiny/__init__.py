"""An importable extension that does nothing: what the tests of failures build."""

from . import _ops

__all__ = ["_ops"]
