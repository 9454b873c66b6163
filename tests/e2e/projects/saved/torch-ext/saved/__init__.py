import torch

from ._ops import add_op_namespace_prefix, answer_to, ops


@torch.library.register_fake(add_op_namespace_prefix("shifted"))
def _(input, by=1.0):
    return torch.empty_like(input)


def _setup(ctx, inputs, output):
    ctx.by = inputs[1] if len(inputs) > 1 else 1.0


torch.library.register_autograd(
    add_op_namespace_prefix("shifted"), lambda ctx, gradient: (gradient * ctx.by, None), setup_context=_setup
)


def shifted(input):
    return ops.shifted(input, 2.0)
