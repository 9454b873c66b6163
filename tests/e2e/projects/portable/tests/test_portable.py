"""The ops, as callers use them."""

import portable
import pytest
import torch
from portable._ops import ops


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_scaled(dtype):
    x, bias = torch.randn(2, 5, 3).to(dtype)
    torch.testing.assert_close(portable.scaled(x), x * 2)
    torch.testing.assert_close(portable.scaled(x.t(), 3.0), x.t() * 3)
    torch.testing.assert_close(portable.scaled(x, bias=bias), x * 2 + bias)


def test_scaled_refuses():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"`bias` has the sizes \[3\]"):
        portable.scaled(x, bias=torch.ones(3))
    with pytest.raises(RuntimeError, match="at::Tensor `bias` has another type"):
        portable.scaled(x, bias=x.double())
    with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
        portable.scaled(x.int())


def test_add_is_in_place():
    x = torch.zeros(3)
    part = x[1:]
    assert portable.add_(part, torch.tensor([1, 2]), times=2) is None
    assert x.tolist() == [0, 2, 4]


def test_halves():
    x = torch.arange(6.0)
    a, b = portable.halves(x, [3, 1])
    assert (a.tolist(), b.tolist()) == ([[0], [1], [2]], [[3], [4], [5]])


def test_counted():
    count, dim = portable.counted(torch.zeros(2, 3))
    assert (count.tolist(), count.dtype, dim) == ([6], torch.int64, 2)


def test_gradients_and_keys():
    """A kernel without a key is differentiated through; one for the CPU is not."""
    x = torch.ones(4, requires_grad=True)
    assert portable.halves(x, [2])[0].requires_grad
    assert "a!" in str(ops.add_.default._schema)
