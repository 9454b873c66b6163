from ._ops import ops


def shortest(value):
    return ops.shortest(value)
