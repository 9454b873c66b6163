"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_no_gradient
from verify import DEVICES, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

# Rows, columns, depth.
SIZES = [(128, 128, 128), (127, 64, 512), (1, 256, 32), (513, 8, 8), (3, 1000, 1000), (0, 8, 8)]


def reference(a, b, bias):
    return torch.relu(a @ b + bias)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes):
    rows, columns, depth = sizes
    a = make((rows, depth), torch.float16, low=-1, high=1)
    b = make((depth, columns), torch.float16, low=-1, high=1, seed=1)
    bias = make((columns,), torch.float16, low=-1, high=1, seed=2)
    out = torch.empty(rows, columns, dtype=torch.float16, device=DEVICES.device)
    verify(lambda out, *inputs: op(*inputs, out), reference, [a, b, bias], out=out, terms=depth + 1)


def test_there_is_no_gradient():
    a = make((8, 8), torch.float16)
    verify_no_gradient(op, [a, a.clone(), a[0].clone()])


def test_refuses():
    a = torch.zeros(8, 8, dtype=torch.float16, device=DEVICES.device)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(a.float(), a.float(), a[0].float())
    with pytest.raises(RuntimeError, match="multiples of 8"):
        op(a[:, :4].contiguous(), a[:4], a[0])
    with pytest.raises(RuntimeError, match="contiguous"):
        op(a.t()[:, ::2], a[:4], a[0])


def test_op_is_sound():
    a = make((8, 8), torch.float16)
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (torch.empty_like(a), a, a.clone(), a[0].clone()))
