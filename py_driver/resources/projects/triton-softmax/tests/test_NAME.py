"""The kernels against torch in float64. Run them with `driver test`, on a machine with a GPU."""

import pytest
import torch
from gradients import verify_gradient, verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

if DEVICES.device == "cpu":
    pytest.skip("Triton needs a GPU", allow_module_level=True)

import kernels

kernel = kernels.get_kernel("[[ repo_id ]]", version=1)
op = kernel.[[ module ]]

# Lengths around each power of two at which another kernel or configuration begins.
SHAPES = [(64, 64), (127, 61), (5, 256), (5, 257), (3, 1024), (3, 1025), (2, 8192), (2, 8193), (2, 30001)]
FEW = [(4096, 1), (3, 5, 7), (9,), (), (0, 4), (4, 0)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def reference(x, scale=1.0):
    return torch.softmax(scale * x, dim=-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES + FEW, ids=str)
def test_shapes(shape, dtype):
    x = make(shape, dtype)
    verify(lambda out, x: op(x, out=out), reference, [x], out=x, ulps=64)


@pytest.mark.parametrize("scale", [0.125, 1.0, 3, -2.5, 0.0])
@pytest.mark.parametrize("columns", [100, 9000])
def test_scales(columns, scale):
    verify(op, reference, [make((5, columns), torch.float32), scale], ulps=256)


@pytest.mark.parametrize("config", [{"BLOCK": 128, "num_warps": 2}, {"BLOCK": 16384, "num_warps": 8}], ids=str)
def test_configurations_that_were_not_compiled_ahead(config):
    verify(lambda x: op(x, config=config), reference, [make((5, 1000), torch.float32)], ulps=64)


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


def test_gradients_of_a_scaled_row():
    verify_gradient(lambda x: op(x, 0.5), lambda x: reference(x, 0.5), [make((33, 7), torch.float32)], terms=48)


def test_compiled_gradients():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, reference, [make((33, 7), torch.float32)], terms=48)


def test_a_given_output_has_no_gradient():
    x = make((33, 7), torch.float32)
    verify_no_gradient(lambda x, out: op(x, out=out), [x, torch.empty_like(x)])


@pytest.mark.parametrize("config", [None, {"BLOCK": 2, "num_warps": 1}], ids=["row", "long"])
def test_special_values(config):
    inf, nan = float("inf"), float("nan")
    rows = (-inf, 0.0, 1.0), (nan, 0.0, 1.0), (1e4, -1e4, 0.0), (-inf, -inf, -inf), (-inf, -inf, 2.0), (inf, 0.0, 1.0)
    x = torch.tensor(rows, device=DEVICES.device)
    verify(lambda x: op(x, config=config), reference, [x], ulps=64)


def test_op_is_sound():
    x = make((5, 3), torch.float32)
    ops = kernel._ops.ops
    torch.library.opcheck(ops.[[ module ]]_backward.default, (torch.ones_like(x), reference(x), 1.0))
    torch.library.opcheck(ops.[[ module ]].default, (x.requires_grad_(), 0.5))


def test_refuses():
    x = torch.zeros(4, 4, device=DEVICES.device)
    with pytest.raises(ValueError, match="out is"):
        op(x, out=x[:2])
    with pytest.raises(TypeError, match="no kernel for"):
        op(x.double())


@large(elements=2**31 + 2**15, bytes_each=5)
def test_more_than_int32():
    x = torch.zeros(2**17 + 2, 2**14, dtype=torch.float16, device=DEVICES.device)
    assert (op(x)[-1] == 2.0**-14).all()
