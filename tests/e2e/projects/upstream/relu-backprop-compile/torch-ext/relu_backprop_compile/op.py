import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("relu_fwd"))
def _(input):
    return torch.empty_like(input)


@torch.library.register_fake(add_op_namespace_prefix("relu_bwd"))
def _(grad_output, input):
    return torch.empty_like(input)


def _setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad_output):
    (input,) = ctx.saved_tensors
    return ops.relu_bwd(grad_output.contiguous(), input)


torch.library.register_autograd(
    add_op_namespace_prefix("relu_fwd"), _backward, setup_context=_setup_context
)


def relu(x):
    return ops.relu_fwd(x)
