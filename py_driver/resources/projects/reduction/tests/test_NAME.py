"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_gradient, verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

SHAPES = [(64, 64), (127, 61), (1, 4096), (4096, 1), (3, 5, 7), (2, 8192), (3, 8193), (8, 30001), (9,), (0, 4), (4, 0)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def reference(x):
    return torch.softmax(x, dim=-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, dtype):
    x = make(shape, dtype)
    verify(lambda out, x: op(x, out), reference, [x], out=x, ulps=64)


LIMITS = {kernel.WARP: 1024, kernel.SHARED: 8192, kernel.BLOCK: 10**6}


@pytest.mark.parametrize("variant", LIMITS)
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 255, 257, 1000, 1024, 1025, 8191, 8192])
def test_variants(variant, columns):
    if columns > LIMITS[variant]:
        pytest.skip("rows are too long for this variant")
    verify(lambda x: op(x, variant=variant), reference, [make((5, columns), torch.float32)], ulps=64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(dtype, layout):
    verify(op, reference, [laid_out(make((62, 48), dtype), layout)], ulps=64)


@pytest.mark.parametrize("shape", [(62, 48), (3, 1025), (2, 8193)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype, shape):
    # The output that the backward reads is rounded.
    verify_gradient(op, reference, [make(shape, dtype)], accumulate=dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_layouts(layout):
    verify_gradient(op, reference, [laid_out(make((62, 48), torch.float32), layout)], terms=48)


def test_compiled_gradients():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, reference, [make((33, 7), torch.float32)])


def test_a_given_output_has_no_gradient():
    x = make((33, 7), torch.float32)
    verify_no_gradient(op, [x, torch.empty_like(x)])


def test_special_values():
    inf, nan = float("inf"), float("nan")
    rows = (-inf, 0.0, 1.0), (nan, 0.0, 1.0), (1e4, -1e4, 0.0), (-inf, -inf, -inf)
    x = torch.tensor(rows, device=DEVICES.device)
    verify(op, reference, [x], ulps=64)


def test_refuses():
    x = torch.zeros(4, 4, device=DEVICES.device)
    for tensors in ((x, x.to("meta")), (x.to("meta"), x.clone())):
        with pytest.raises(RuntimeError, match="out is on"):
            op(*tensors)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(x.double())
    with pytest.raises(RuntimeError, match="there is no variant"):
        op(x, variant=3)
    with pytest.raises(RuntimeError, match="takes fewer than"):
        op(torch.zeros(1, 8193, device=DEVICES.device), variant=kernel.SHARED)


def test_op_is_sound():
    x = make((5, 3), torch.float32)
    torch.library.opcheck(kernel._ops.ops.[[ module ]]_out.default, (torch.empty_like(x), x, -1))
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (x.requires_grad_(), -1))


@large(elements=2**31 + 2**16, bytes_each=4)
def test_more_than_int32():
    x = torch.zeros(2**15 + 1, 2**16, dtype=torch.float16, device=DEVICES.device)
    assert (op(x) == 2.0**-16).all()


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
