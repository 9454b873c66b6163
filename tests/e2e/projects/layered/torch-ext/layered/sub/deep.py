"""Two levels down."""

LEVEL = 2


def above():
    """What is two levels up."""
    from .. import __version__
    from ..layers import Twice

    return __version__, Twice
