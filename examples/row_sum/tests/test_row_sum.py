"""The built variant of this machine's torch against torch.sum; run with pytest on a GPU after `driver build`."""

from __future__ import annotations

import os
from pathlib import Path

import kernels
import pytest
import torch

_BUILD = Path(os.environ.get("ROW_SUM_BUILD", Path(__file__).resolve().parent.parent / "build"))

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(scope="module")
def row_sum():
    """The loaded kernel: a Python module."""
    return kernels.get_local_kernel(_BUILD)


@pytest.mark.parametrize("shape", [(1, 1), (1, 31), (7, 32), (9, 33), (5, 64), (3, 65), (1000, 1000), (0, 8), (8, 0)])
def test_equals_torch(row_sum, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).cuda()
    expected = x.double().sum(dim=1).float()
    torch.testing.assert_close(row_sum.row_sum(x), expected, rtol=1e-5, atol=1e-4)


def test_strides(row_sum):
    x = torch.randn((40, 30), generator=torch.Generator().manual_seed(0)).cuda().t()
    torch.testing.assert_close(row_sum.row_sum(x), x.double().sum(dim=1).float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (7, 32), (9, 33), (0, 8), (8, 0)])
def test_gradient(row_sum, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).cuda().requires_grad_()
    grad = torch.randn(shape[0], generator=torch.Generator().manual_seed(1)).cuda()
    for function in (row_sum.row_sum, torch.compile(row_sum.row_sum, backend="aot_eager", fullgraph=True)):
        [actual] = torch.autograd.grad(function(x), x, grad)
        torch.testing.assert_close(actual, grad[:, None].expand(shape), rtol=0, atol=0)


def test_op_is_sound(row_sum):
    x = torch.randn(5, 33, device="cuda", requires_grad=True)
    torch.library.opcheck(row_sum._ops.ops.row_sum.default, (x,))


@pytest.mark.parametrize("x", [torch.zeros(3), torch.zeros(3, 3, dtype=torch.float16)])
def test_what_it_does_not_take(row_sum, x):
    with pytest.raises(RuntimeError, match="row_sum: input"):
        row_sum.row_sum(x.cuda())
