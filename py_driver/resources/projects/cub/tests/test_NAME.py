"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

COUNTS = [1, 2, 31, 1024, 1025, 100_003, 0]


def reference(x):
    return torch.cumsum(x, 0)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_integers(count, dtype):
    x = make((count,), dtype, low=-100, high=100)
    verify(lambda out, x: op(x, out), reference, [x], out=x)


@pytest.mark.parametrize("count", COUNTS)
def test_floats(count):
    x = make((count,), torch.float32)
    # CUB adds up blocks in the order in which they end.
    verify(lambda out, x: op(x, out), reference, [x], out=x, terms=count, repeatable=False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    verify(op, reference, [laid_out(make((4099,), torch.int64, low=-100, high=100), layout)])


def test_there_is_no_gradient():
    verify_no_gradient(op, [make((33,), torch.float32)])


def test_refuses():
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(torch.zeros(4, dtype=torch.float64, device=DEVICES.device))
    with pytest.raises(RuntimeError, match="dimensions"):
        op(torch.zeros(4, 4, device=DEVICES.device))


def test_op_is_sound():
    x = make((5,), torch.float32)
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (torch.empty_like(x), x))


@large(elements=2**31 + 17, bytes_each=8)
def test_more_than_int32():
    x = torch.zeros(2**31 + 17, dtype=torch.int32, device=DEVICES.device)
    x[0] = x[-1] = 1
    out = op(x)
    assert out[-2:].tolist() == [1, 2]
