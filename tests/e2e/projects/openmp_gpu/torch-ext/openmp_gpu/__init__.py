"""A sum on the host with OpenMP in a source for GPUs."""

from ._ops import ops


def sum(n: int) -> tuple[int, int]:
    """0 + 1 + ... + (n - 1), and the number of threads that OpenMP has."""
    return ops.sum(n)
