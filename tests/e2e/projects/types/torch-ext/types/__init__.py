from ._ops import classes, ops

__all__ = ["classes", "ops"]
