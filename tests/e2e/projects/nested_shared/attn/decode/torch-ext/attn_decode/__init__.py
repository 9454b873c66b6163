from ._ops import ops

nothing = ops.nothing
