from ._ops import ops


def twice_and_one(count: int) -> int:
    return ops.twice_and_one(count)
