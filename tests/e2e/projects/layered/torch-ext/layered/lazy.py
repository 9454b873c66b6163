from .layers import Twice as Slow

GREETING = "late"
