"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_gradient, verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

SHAPES = [(64, 64), (127, 61), (1, 4096), (4096, 1), (3, 5, 7), (8191,), (1,), (0,), (0, 4), ()]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def reference(x):
    return x * torch.sigmoid(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, dtype):
    x = make(shape, dtype)
    verify(lambda out, x: op(x, out), reference, [x], out=x, ulps=4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(62, 48), (3, 5000), (300, 1), (5, 1, 7)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(dtype, shape, layout):
    verify(op, reference, [laid_out(make(shape, dtype), layout)], ulps=4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype, layout):
    verify_gradient(op, reference, [laid_out(make((62, 48), dtype), layout)])


def test_compiled_gradients():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, reference, [make((33, 7), torch.float32)])


def test_a_given_output_has_no_gradient():
    x = make((33, 7), torch.float32)
    verify_no_gradient(op, [x, torch.empty_like(x)])


def test_special_values():
    x = torch.tensor([float("nan"), float("inf"), -200.0, -0.0, 0.0, 1e-40], device=DEVICES.device)
    verify(op, reference, [x], ulps=4)


def test_small_results():
    """As far as exp(-x) is finite; there exp(x) is less than the smallest normal number."""
    for dtype in DTYPES:
        verify(op, reference, [torch.linspace(-88, 20, 4001, device=DEVICES.device).to(dtype)], ulps=4)


def test_refuses():
    x = torch.zeros(4, 4, device=DEVICES.device)
    for tensors in ((x, x.to("meta")), (x.to("meta"), x.clone())):
        with pytest.raises(RuntimeError, match="out is on"):
            op(*tensors)
    for out in (torch.zeros(4, 3, device=DEVICES.device), torch.zeros(8, 4, device=DEVICES.device)[::2], x.half()):
        with pytest.raises(RuntimeError):
            op(x, out)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(x.double())


def test_op_is_sound():
    x = make((5, 3), torch.float32)
    torch.library.opcheck(kernel._ops.ops.[[ module ]]_out.default, (torch.empty_like(x), x))
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (x.requires_grad_(),))


@large(elements=2**31 + 17, bytes_each=4)
def test_more_than_int32():
    x = torch.full((2**31 + 17,), 3.0, dtype=torch.float16, device=DEVICES.device)
    out = op(x)
    expected = reference(torch.tensor(3.0, dtype=torch.float64)).half().item()
    assert (out[:17] == expected).all()
    assert (out[-17:] == expected).all()
    assert (out == expected).sum().item() == out.numel()


def test_out_is_written_for_autograd_too():
    x = make((5, 6), torch.float32)
    out = torch.ones_like(x)
    total = (torch.ones_like(x, requires_grad=True) * out).sum()
    op(x, out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_out_that_overlaps():
    x = make((5, 6), torch.float32)
    with pytest.raises(RuntimeError, match="single memory location"):
        op(x[:-1], x[1:])
