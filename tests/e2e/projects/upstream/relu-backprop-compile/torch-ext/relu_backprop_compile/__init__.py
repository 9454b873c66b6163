from .op import relu

__all__ = ["relu"]
