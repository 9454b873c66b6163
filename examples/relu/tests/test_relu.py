"""The built variant of this machine's torch against torch.relu; run with pytest after `driver build`."""

from __future__ import annotations

import os
from pathlib import Path

import kernels
import pytest
import torch

_BUILD = Path(os.environ.get("RELU_BUILD", Path(__file__).resolve().parent.parent / "build"))
_DEVICES = ["cuda"] if torch.cuda.is_available() else ["cpu"]
_SHAPES = [(64, 64), (1, 1000), (1000, 1), (127, 61), (3, 5, 7), (1,), (0,), (4, 0), ()]
_DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def relu():
    """The loaded kernel: a Python module."""
    return kernels.get_local_kernel(_BUILD, backend="cpu" if _DEVICES == ["cpu"] else None)


def _input(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype).to(device)
    if x.numel() > 4:
        x.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    return x


def _same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", _SHAPES)
def test_equals_torch(relu, shape, dtype, device):
    x = _input(shape, dtype, device)
    out = torch.full(shape, float("nan"), dtype=dtype, device=device)
    assert relu.relu(x, out) is out
    _same(out, torch.relu(x))
    _same(relu.relu(x), torch.relu(x))


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_any_strides(relu, dtype, device):
    x = _input((62, 47), dtype, device)
    for view in (x.t(), x[::2, 1::3], x[:, :1].expand(62, 5), x[1:, 3:]):
        _same(relu.relu(view), torch.relu(view))


@pytest.mark.parametrize("device", _DEVICES)
def test_unaligned_pointer(relu, device):
    x = _input((1031,), torch.float16, device)[1:]
    _same(relu.relu(x), torch.relu(x))


@pytest.mark.parametrize("device", _DEVICES)
def test_in_place(relu, device):
    x = _input((129,), torch.float32, device)
    expected = torch.relu(x)
    _same(relu.relu(x, x), expected)


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_gradient(relu, dtype, device):
    x = _input((62, 47), dtype, device).t().requires_grad_()
    grad = torch.randn(47, 62, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)
    [expected] = torch.autograd.grad(torch.relu(x), x, grad)
    for function in (relu.relu, torch.compile(relu.relu, backend="aot_eager", fullgraph=True)):
        [actual] = torch.autograd.grad(function(x), x, grad)
        _same(actual, expected)


@pytest.mark.parametrize("device", _DEVICES)
def test_a_given_output_has_no_gradient(relu, device):
    x = torch.randn(5, 3, device=device, requires_grad=True)
    out = torch.empty_like(x.detach())
    for function in (relu.relu, torch.compile(relu.relu, backend="aot_eager")):
        with pytest.raises(RuntimeError, match="relu_out: the op has no backward"):
            function(x, out)
    with torch.no_grad():
        _same(relu.relu(x, out), torch.relu(x))


@pytest.mark.parametrize("device", _DEVICES)
def test_refuses(relu, device):
    x = torch.zeros(4, 4, device=device)
    for bad in (torch.zeros(4, 3, device=device), x.half(), torch.zeros(8, 4, device=device)[::2], x.to("meta")):
        with pytest.raises((RuntimeError, NotImplementedError)):
            relu.relu(x, bad)
    with pytest.raises(RuntimeError, match="no kernel for"):
        relu.relu(x.double())


def test_op_is_sound(relu):
    device = _DEVICES[0]
    x = torch.randn(5, 3, device=device)
    torch.library.opcheck(relu._ops.ops.relu_out.default, (torch.empty_like(x), x))
    torch.library.opcheck(relu._ops.ops.relu.default, (x.requires_grad_(),))
