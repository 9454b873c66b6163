"""A project that is correct: the tests of what compilers say put mistakes into it."""

from . import _ops

__all__ = ["_ops"]
