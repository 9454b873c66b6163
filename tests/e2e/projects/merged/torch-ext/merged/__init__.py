from ._ops import ops


def sum() -> int:
    return ops.sum()
