"""The kernel against torch in float64. Run it with `driver test`, on a machine with a GPU."""

import pytest
import torch
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

if DEVICES.device == "cpu":
    pytest.skip("Triton needs a GPU", allow_module_level=True)

import kernels

op = kernels.get_kernel("[[ repo_id ]]", version=1).[[ module ]]

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
