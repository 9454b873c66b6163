"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_gradient
from verify import DEVICES, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

SHAPES = [(64, 64), (127, 61), (1, 4096), (4096, 1), (3, 5, 7), (8191,), (1,), (0,), (0, 4), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape):
    verify(op, lambda x: 2 * x, [make(shape, torch.float32)], ulps=0)


def test_an_address_that_is_not_aligned():
    verify(op, lambda x: 2 * x, [laid_out(make((1031,), torch.float32), "offset")], ulps=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients(shape):
    verify_gradient(op, lambda x: 2 * x, [make(shape, torch.float32)])


def test_compiled_gradients():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, lambda x: 2 * x, [make((33, 7), torch.float32)])


def test_refuses():
    x = torch.zeros(4, 4, device=DEVICES.device)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(x.double())
    with pytest.raises(RuntimeError, match="contiguous"):
        op(x[:, ::2])


def test_op_is_sound():
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (make((5, 3), torch.float32).requires_grad_(),))


@large(elements=2**31 + 17, bytes_each=8)
def test_more_than_int32():
    out = op(torch.full((2**31 + 17,), 3.0, device=DEVICES.device))
    assert (out[-17:] == 6).all()
