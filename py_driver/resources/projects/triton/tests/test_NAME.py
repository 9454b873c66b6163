"""The kernel against torch in float64. Run it with `driver test`, on a machine with a GPU."""

import pytest
import torch
from gradients import verify_gradient, verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

if DEVICES.device == "cpu":
    pytest.skip("Triton needs a GPU", allow_module_level=True)

import kernels

kernel = kernels.get_kernel("[[ repo_id ]]", version=1)
op = kernel.[[ module ]]

SHAPES = [(64, 64), (127, 61), (1, 4096), (4096, 1), (3, 5, 7), (8191,), (1,), (0,), (0, 4), ()]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def reference(gate, up):
    return torch.nn.functional.silu(gate) * up


def pair(shape, dtype):
    return make(shape, dtype), make(shape, dtype, seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, dtype):
    gate, up = pair(shape, dtype)
    verify(lambda out, gate, up: op(gate, up, out), reference, [gate, up], out=gate, ulps=16)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    gate, up = pair((62, 48), torch.float16)
    verify(op, reference, [laid_out(gate, layout), laid_out(up, layout)], ulps=16)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype, layout):
    verify_gradient(op, reference, [laid_out(tensor, layout) for tensor in pair((62, 48), dtype)], terms=16)


def test_compiled_gradients():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, reference, pair((33, 7), torch.float32), terms=16)


def test_a_given_output_has_no_gradient():
    gate, up = pair((33, 7), torch.float32)
    verify_no_gradient(op, [gate, up, torch.empty_like(gate)])


def test_op_is_sound():
    gate, up = pair((5, 3), torch.float32)
    ops = kernel._ops.ops
    torch.library.opcheck(ops.[[ module ]]_backward.default, (torch.ones_like(gate), gate, up))
    torch.library.opcheck(ops.[[ module ]].default, (gate.requires_grad_(), up.requires_grad_()))


def test_refuses():
    x = torch.zeros(4, device=DEVICES.device)
    with pytest.raises(ValueError, match="gate is"):
        op(x, x[:2])
    with pytest.raises(TypeError, match="no kernel for"):
        op(x.double(), x.double())


@large(elements=2**31 + 17, bytes_each=6)
def test_more_than_int32():
    x = torch.ones(2**31 + 17, dtype=torch.float16, device=DEVICES.device)
    assert (op(x, x)[-17:] == op(x[:1], x[:1])).all()
