"""The kernels against torch in float64; run with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_gradient
from verify import DEVICES, LAYOUTS, laid_out, make, verify

kernel = kernels.get_kernel("kernels-community/transformer", version=1, backend=DEVICES.backend)
ops = kernel._ops.ops

EPS = 1e-5
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Rows of each length that a kernel is made for, and those that no vector load fits.
ROWS = [(1, 1), (3, 64), (9, 256), (7, 500), (64, 1024), (5, 1027), (2, 3, 4096), (2, 8192), (3, 40960), (0, 8)]
HEADS = [(2, 4, 5, 64), (1, 1, 1, 2), (2, 3, 7, 12), (1, 8, 33, 128), (3, 2, 0, 64)]
COUNTS = [(1,), (7, 11), (33, 128), (3, 4097), (64, 1024), (0,), ()]
TERMS = 64
"""A row is added up by many threads: each adds a few values, and then the threads' sums are added in a tree."""


def values(shape, dtype, seed=0, low=-2, high=2):
    return make(shape, dtype, seed=seed, low=low, high=high)


def norm(x, weight, eps):
    return x * rstd_of(x, eps) * weight


def rstd_of(x, eps):
    return (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    other = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos[:, None] + other * sin[:, None]


def swiglu(gate, up):
    return gate * torch.sigmoid(gate) * up


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_norm(shape, dtype):
    x, weight = values(shape, dtype), values(shape[-1:], dtype, 1)
    for eps in (EPS, 0.5):
        verify(kernel.rms_norm, norm, [x, weight, eps], terms=TERMS, magnitude=lambda *all: 2 * norm(*all).abs())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_norm_of_a_sum(shape, dtype):
    given = [values(shape, dtype), values(shape, dtype, 1), values(shape[-1:], dtype, 2), EPS]
    expected = lambda x, residual, weight, eps: norm(x + residual, weight, eps)
    magnitude = lambda x, residual, weight, eps: 2 * (x.abs() + residual.abs()) * rstd_of(x + residual, eps) * weight
    verify(lambda *all: kernel.add_rms_norm(*all)[0], expected, given, terms=TERMS, magnitude=magnitude)
    verify(lambda *all: kernel.add_rms_norm(*all)[1], lambda x, residual, *_: x + residual, given)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_a_norm(layout):
    given = [laid_out(values((33, 256), torch.float32), layout), values((256,), torch.float32, 1), EPS]
    verify(kernel.rms_norm, norm, given, terms=TERMS, magnitude=lambda *all: 2 * norm(*all).abs())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [*ROWS, (4500, 64), (700, 4096), (300, 1027)], ids=str)
def test_gradients_of_a_norm(shape, dtype):
    total, grad, grad_sum = (values(shape, dtype, seed) for seed in range(3))
    weight = values(shape[-1:], dtype, 3)
    rstd = rstd_of(total.float(), EPS)[..., 0]

    def gradients(grad_out, grad_sum, total, rstd, weight):
        normal, scaled = total * rstd[..., None], grad_out * weight
        own = rstd[..., None] * (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) + grad_sum
        return own, (grad_out * normal).sum(tuple(range(total.dim() - 1)))

    def magnitudes(grad_out, grad_sum, total, rstd, weight):
        normal, scaled = (total * rstd[..., None]).abs(), (grad_out * weight).abs()
        own = rstd[..., None] * (scaled + 4 * normal * (scaled * normal).mean(-1, keepdim=True)) + grad_sum.abs()
        return 2 * own, 2 * (grad_out.abs() * normal).sum(tuple(range(total.dim() - 1)))

    rows = total.numel() // shape[-1]
    for i, terms in enumerate((TERMS, rows + TERMS)):
        verify(
            lambda *all, i=i: ops.rms_norm_backward(*all)[i],
            lambda *all, i=i: gradients(*all)[i],
            [grad, grad_sum, total, rstd, weight],
            terms=terms,
            magnitude=lambda *all, i=i: magnitudes(*all)[i],
        )


def compile_whole(op):
    torch._dynamo.reset()  # each case is compiled anew: there is a limit for one function
    return torch.compile(op, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_autograd_of_a_norm(dtype, compiled):
    wrap = compile_whole if compiled else (lambda op: op)
    shape = (5, 24) if compiled else (33, 1024)
    x, residual, weight = values(shape, dtype), values(shape, dtype, 1), values(shape[-1:], dtype, 2)
    verify_gradient(wrap(kernel.rms_norm), norm, [x, weight, EPS], terms=TERMS, accumulate=dtype)
    both = lambda x, residual, weight, eps: (norm(x + residual, weight, eps), x + residual)
    verify_gradient(wrap(kernel.add_rms_norm), both, [x, residual, weight, EPS], terms=TERMS, accumulate=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("shape", HEADS, ids=str)
def test_rope(shape, batched, dtype):
    batch, _, tokens, size = shape
    q, k = values(shape, dtype), values((batch, 2, tokens, size), dtype, 1)
    cos, sin = (values((batch if batched else 1, tokens, size), dtype, seed) for seed in (2, 3))
    magnitude = lambda i: lambda *all: 8 * torch.ones_like(all[i])  # two products of values up to 2
    for inverse in (False, True):
        for i in (0, 1):
            turn = turned if not inverse else back
            verify(
                lambda *all, i=i, inverse=inverse: ops.rope(*all, inverse)[i].contiguous(),
                lambda *all, i=i, turn=turn: turn(all[i], *all[2:]),
                [q, k, cos, sin],
                terms=2,
                magnitude=magnitude(i),
            )


def back(x, cos, sin):
    half = x.shape[-1] // 2
    turned_by = x * sin[:, None]
    return x * cos[:, None] + torch.cat((turned_by[..., half:], -turned_by[..., :half]), -1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_rope(layout):
    q, k = (laid_out(values((2, 4, 6, 16), torch.bfloat16, seed), layout) for seed in range(2))
    cos, sin = (values((2, 6, 16), torch.bfloat16, seed) for seed in (2, 3))
    for heads_last in (False, True):
        given = [x.transpose(1, 2) if heads_last else x for x in (q, k)]
        found = kernel.rope(*given, cos, sin, 2 if heads_last else 1)
        for x, out in zip((q, k), found, strict=True):
            expected = turned(x.double(), cos.double(), sin.double()).to(x.dtype)
            torch.testing.assert_close(out.transpose(1, 2) if heads_last else out, expected, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_autograd_of_rope(compiled):
    cos, sin = (values((2, 5, 16), torch.float32, seed) for seed in (2, 3))
    op = lambda q, k: kernel.rope(q, k, cos, sin)
    if compiled:
        op = compile_whole(op)
    expected = lambda q, k: (turned(q, cos.to(q.dtype), sin.to(q.dtype)), turned(k, cos.to(k.dtype), sin.to(k.dtype)))
    verify_gradient(op, expected, [values((2, 4, 5, 16), torch.float32), values((2, 2, 5, 16), torch.float32, 1)])


def test_gradients_of_angles_are_refused():
    q, k = values((1, 2, 3, 8), torch.float32), values((1, 2, 3, 8), torch.float32, 1)
    cos, sin = (values((1, 3, 8), torch.float32, seed).requires_grad_() for seed in (2, 3))
    with pytest.raises(RuntimeError, match="no backward for cos and sin"):
        kernel.rope(q, k, cos, sin)[0].sum().backward()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", COUNTS, ids=str)
def test_swiglu(shape, dtype):
    gate, up = values(shape, dtype, low=-20, high=20), values(shape, dtype, 1)
    magnitude = lambda gate, up: gate.abs() * up.abs()
    verify(kernel.swiglu, swiglu, [gate, up], terms=4, magnitude=magnitude)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -90.0, 90.0, -3e4, 0.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_swiglu_of_special_values(value, dtype):
    gate = torch.full((40,), value, dtype=dtype, device=DEVICES.device)
    expected = torch.nn.functional.silu(gate.float())
    found = kernel.swiglu(gate, torch.ones_like(gate)).float()
    torch.testing.assert_close(found, expected.to(dtype).float(), equal_nan=True, rtol=2**-7, atol=1e-30)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_swiglu(layout):
    gate, up = (laid_out(values((33, 256), torch.float16, seed), layout) for seed in range(2))
    verify(kernel.swiglu, swiglu, [gate, up], terms=4, magnitude=lambda gate, up: gate.abs() * up.abs())


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_autograd_of_swiglu(dtype, compiled):
    op = compile_whole(kernel.swiglu) if compiled else kernel.swiglu
    verify_gradient(op, swiglu, [values((5, 131), dtype, low=-8, high=8), values((5, 131), dtype, 1)])


@pytest.mark.parametrize("name", ["rms_norm", "swiglu"])
def test_second_derivatives_are_refused(name):
    x, other = (values((6, 96), torch.float32, seed).requires_grad_() for seed in range(2))
    out = kernel.rms_norm(x, other[0]) if name == "rms_norm" else kernel.swiglu(x, other)
    with pytest.raises(RuntimeError, match="no backward"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_refuses():
    x, weight = values((4, 8), torch.float32), values((8,), torch.float32)
    with pytest.raises(RuntimeError, match="no kernel for"):
        kernel.rms_norm(x.double(), weight.double())
    with pytest.raises(RuntimeError, match="weight is"):
        kernel.rms_norm(x, weight.half())
    with pytest.raises(RuntimeError, match="residual has shape"):
        kernel.add_rms_norm(x, x[:2], weight)
    with pytest.raises(RuntimeError, match="up has shape"):
        kernel.swiglu(x, x[:2])
    heads = values((1, 2, 3, 8), torch.float32)
    with pytest.raises(RuntimeError, match="cos has shape"):
        kernel.rope(heads, heads, x, x)
    with pytest.raises(RuntimeError, match="an even head size"):
        kernel.rope(heads[..., :7], heads[..., :7], x[None], x[None])


def test_ops_are_sound():
    x, weight = values((5, 24), torch.float32).requires_grad_(), values((24,), torch.float32).requires_grad_()
    heads, angles = values((2, 3, 5, 8), torch.float32).requires_grad_(), values((2, 5, 8), torch.float32)
    torch.library.opcheck(ops.rms_norm.default, (x, weight, EPS))
    torch.library.opcheck(ops.add_rms_norm.default, (x, x.detach(), weight, EPS))
    torch.library.opcheck(ops.rope.default, (heads, heads, angles, angles, False))
    torch.library.opcheck(ops.swiglu.default, (x, x))
