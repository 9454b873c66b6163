"""A package in the package."""

from .deep import LEVEL

__all__ = ["LEVEL"]
