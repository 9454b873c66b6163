"""The kernels against torch in float64. Run them with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

EPS = 1e-5
# Rows of each length that a kernel is made for, and those that no vector load fits.
SHAPES = [(1, 1), (3, 256), (7, 500), (64, 1024), (5, 1027), (33, 4096), (2, 3, 8192), (2, 16384), (3, 20480), (0, 8)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TERMS = 64
"""A row is added up by many threads: each adds a few values, and then the threads' sums are added in a tree."""


def tensors(shape, dtype):
    limits = {"low": -2, "high": 2}
    rows = [make(shape, dtype, seed=seed, **limits) for seed in range(2)]
    return rows + [make(shape[-1:], dtype, seed=seed, **limits) for seed in range(2, 4)]


def reference(x, residual, weight, bias, eps):
    return torch.nn.functional.layer_norm(x + residual, x.shape[-1:], weight, bias, eps)


def mean_of(x, residual, *_):
    return (x + residual).mean(-1)


def rstd_of(x, residual, weight, bias, eps):
    total = x + residual
    variance = (total - total.mean(-1, keepdim=True)).square().mean(-1)
    return (variance + eps).rsqrt()


def magnitude(x, residual, weight, bias, eps):
    both = x.abs() + residual.abs()
    rstd = rstd_of(x, residual, weight, bias, eps)[..., None]
    # The sum of squares has an error of its own, which all normal values share.
    return 3 * (both + both.mean(-1, keepdim=True)) * rstd * weight.abs() + bias.abs()


def magnitude_of_rstd(x, residual, weight, bias, eps):
    both = (x.abs() + residual.abs()).square().mean(-1)
    return both * rstd_of(x, residual, weight, bias, eps) ** 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norm(shape, dtype):
    for eps in (EPS, 0.5):
        given = [*tensors(shape, dtype), eps]
        verify(lambda *all: op(*all)[0], reference, given, terms=TERMS, magnitude=magnitude)
    verify(lambda *all: op(*all)[1], lambda x, residual, *_: x + residual, given)
    raw = kernel._ops.ops.[[ module ]]
    largest = lambda x, residual, *_: (x.abs() + residual.abs()).mean(-1)
    verify(lambda *all: raw(*all)[2], mean_of, given, terms=TERMS, magnitude=largest)
    verify(lambda *all: raw(*all)[3], rstd_of, given, terms=TERMS, magnitude=magnitude_of_rstd)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    x, residual, weight, bias = tensors((33, 256), torch.float32)
    given = [laid_out(x, layout), laid_out(residual, layout), weight, bias, EPS]
    verify(lambda *all: op(*all)[0], reference, given, terms=TERMS, magnitude=magnitude)


def gradients(grad_out, grad_sum, total, mean, rstd, weight):
    normal = (total - mean[..., None]) * rstd[..., None]
    scaled = grad_out * weight
    along = (scaled * normal).mean(-1, keepdim=True)
    of_input = rstd[..., None] * (scaled - scaled.mean(-1, keepdim=True) - normal * along) + grad_sum
    over = tuple(range(total.dim() - 1))
    return of_input, (grad_out * normal).sum(over), grad_out.sum(over)


def magnitudes(grad_out, grad_sum, total, mean, rstd, weight):
    normal = (total.abs() + mean.abs()[..., None]) * rstd[..., None]
    scaled = (grad_out * weight).abs()
    along = (scaled * normal).mean(-1, keepdim=True)
    of_input = rstd[..., None] * (scaled + scaled.mean(-1, keepdim=True) + normal * along) + grad_sum.abs()
    over = tuple(range(total.dim() - 1))
    return of_input, (grad_out.abs() * normal).sum(over), grad_out.abs().sum(over)


# So many rows that each block of the GPU adds several up, for each of the kernels.
MANY_ROWS = [(4500, 256), (1100, 1024), (700, 4096), (300, 8192), (300, 1027), (150, 20480)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES + MANY_ROWS, ids=str)
def test_gradients(shape, dtype):
    x, residual, weight, bias = tensors(shape, dtype)
    _, total, mean, rstd = kernel._ops.ops.[[ module ]](x, residual, weight, bias, EPS)
    grads = [make(shape, dtype, seed=seed, low=-2, high=2) for seed in range(4, 6)]
    given = [*grads, total, mean, rstd, weight]
    for i, terms in enumerate((TERMS, shape[0] + TERMS, shape[0] + TERMS)):
        verify(
            lambda *all, i=i: kernel._ops.ops.[[ module ]]_backward(*all)[i],
            lambda *all, i=i: gradients(*all)[i],
            given,
            terms=terms,
            magnitude=lambda *all, i=i: magnitudes(*all)[i],
        )


def outputs(x, residual, weight, bias, eps):
    return reference(x, residual, weight, bias, eps), x + residual


@pytest.mark.parametrize("used", [(0, 1), (0,), (1,)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_autograd(layout, used):
    given = [laid_out(tensor, layout) for tensor in tensors((6, 96), torch.float32)]
    some = lambda function: lambda *all: tuple(function(*all)[i] for i in used)
    verify_gradient(some(op), some(outputs), [*given, EPS], terms=TERMS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_autograd_of_types(dtype):
    # The sum that the backward reads is rounded.
    verify_gradient(op, outputs, [*tensors((33, 1024), dtype), EPS], terms=TERMS, accumulate=dtype)


def test_compiled_autograd():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, outputs, [*tensors((5, 24), torch.float32), EPS], terms=TERMS)


def test_second_derivatives_are_refused():
    given = [tensor.requires_grad_() for tensor in tensors((6, 96), torch.float32)]
    with pytest.raises(RuntimeError, match="no backward"):
        torch.autograd.grad(op(*given, EPS)[0].sum(), given[0], create_graph=True)


def test_refuses():
    x, residual, weight, bias = tensors((4, 8), torch.float32)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(x.double(), residual.double(), weight.double(), bias.double())
    with pytest.raises(RuntimeError, match="residual has shape"):
        op(x, residual[:2], weight, bias)
    with pytest.raises(RuntimeError, match="weight is"):
        op(x, residual, weight.half(), bias)
    given = [x, residual, weight, bias]
    for i, tensor in enumerate(given):
        with pytest.raises(RuntimeError, match="several devices"):
            op(*given[:i], tensor.to("meta"), *given[i + 1 :])


def test_op_is_sound():
    given = [tensor.requires_grad_() for tensor in tensors((5, 24), torch.float32)]
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (*given, EPS))


@large(elements=2**31 + 2**16, bytes_each=16)
def test_more_than_int32():
    x = torch.zeros(2**15 + 1, 2**16, dtype=torch.float16, device=DEVICES.device)
    x[:, ::2] = 1
    weight = torch.ones(2**16, dtype=torch.float16, device=DEVICES.device)
    out, total = op(x, x, weight, torch.zeros_like(weight))
    assert (total[:, ::2] == 2).all()
    assert (out[:, ::2] == 1).all()
    assert (out[:, 1::2] == -1).all()
