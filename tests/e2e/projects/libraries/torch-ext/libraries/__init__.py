"""An extension that includes the headers of CUDA's libraries, and calls each of them."""

from . import _ops

__all__ = ["_ops"]
