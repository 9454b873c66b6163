from ._ops import ops

step, once, parallel, openmp = ops.step, ops.once, ops.parallel, ops.openmp
