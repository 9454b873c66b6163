"""The kernels against torch in float64. Run them with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
ops = kernel._ops.ops

EPS = 1e-5
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Rows of each length that a kernel is made for, and those that no vector load fits.
ROWS = [(1, 1), (3, 64), (9, 256), (7, 500), (64, 1024), (5, 1027), (2, 3, 4096), (2, 8192), (3, 40960), (0, 8)]
HEADS = [(2, 4, 5, 64), (1, 1, 1, 2), (2, 3, 7, 12), (1, 8, 33, 128), (3, 2, 0, 64), (1, 40, 2, 96)]
COUNTS = [(1,), (7, 11), (33, 128), (3, 4097), (64, 1024), (0,), ()]
TERMS = 64
"""A row is added up by many threads: each adds a few values, and then the threads' sums are added in a tree."""


def values(shape, dtype, seed=0, low=-2, high=2):
    return make(shape, dtype, seed=seed, low=low, high=high)


def apart(tensor):
    """The same rows, each with a gap of 8 elements after it, so that vector loads fit them as before."""
    wide = tensor.new_zeros((*tensor.shape[:-1], tensor.shape[-1] + 8))
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


def rstd_of(x, eps):
    return (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def norm(x, weight, eps):
    return x * rstd_of(x, eps) * weight


def norm_of_sum(x, residual, weight, eps):
    return norm(x + residual, weight, eps)


def sum_of(x, residual, *_):
    return x + residual


# The sum of squares has an error of its own, which half of counts in the factor of a row.
def size_of_norm(x, weight, eps):
    return 2 * norm(x, weight, eps).abs()


def size_of_norm_of_sum(x, residual, weight, eps):
    return 2 * ((x.abs() + residual.abs()) * rstd_of(x + residual, eps) * weight).abs()


def turned(x, cos, sin, interleaved=False, sign=1):
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    a, b = pairs.unbind(-1)
    cos, sin = cos[:, None], sign * sin[:, None]
    both = torch.stack((a * cos - b * sin, b * cos + a * sin), -1)
    return (both if interleaved else both.transpose(-1, -2)).flatten(-2)


def swiglu(gate, up):
    return gate * torch.sigmoid(gate) * up


def packed(x):
    return swiglu(*x.chunk(2, -1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_norm(shape, dtype):
    x, residual, weight = values(shape, dtype), values(shape, dtype, 1), values(shape[-1:], dtype, 2)
    for eps in (EPS, 0.5):
        verify(kernel.rms_norm, norm, [x, weight, eps], terms=TERMS, magnitude=size_of_norm)
        inputs = [x, residual, weight, eps]
        first = lambda *all: kernel.add_rms_norm(*all)[0]
        verify(first, norm_of_sum, inputs, terms=TERMS, magnitude=size_of_norm_of_sum)
        verify(lambda *all: kernel.add_rms_norm(*all)[1], sum_of, inputs)


@pytest.mark.parametrize("layout", [*LAYOUTS, "apart"])
def test_layouts_of_a_norm(layout):
    lay = apart if layout == "apart" else lambda tensor: laid_out(tensor, layout)
    x, residual = (lay(values((3, 11, 256), torch.float32, seed)) for seed in range(2))
    weight = values((256,), torch.float32, 2)
    for first in (x, x[:, :1], x[:1].expand(3, 11, 256), x[:, ::2]):
        inputs = [first, residual[tuple(slice(size) for size in first.shape)], weight, EPS]
        out = lambda *all: kernel.add_rms_norm(*all)[0]
        verify(out, norm_of_sum, inputs, terms=TERMS, magnitude=size_of_norm_of_sum)
        verify(kernel.rms_norm, norm, [first, weight, EPS], terms=TERMS, magnitude=size_of_norm)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [*ROWS, (4500, 64), (700, 4096), (300, 1027)], ids=str)
def test_gradients_of_a_norm(shape, dtype):
    total, grad, grad_sum = (apart(values(shape, dtype, seed)) for seed in range(3))
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


def whole(op, compiled):
    if not compiled:
        return op
    torch._dynamo.reset()  # each case is compiled anew: there is a limit for one function
    return torch.compile(op, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_autograd_of_a_norm(dtype, compiled):
    shape = (5, 24) if compiled else (33, 1024)
    x, residual, weight = values(shape, dtype), values(shape, dtype, 1), values(shape[-1:], dtype, 2)
    verify_gradient(whole(kernel.rms_norm, compiled), norm, [x, weight, EPS], terms=TERMS, accumulate=dtype)
    both = lambda *all: (norm_of_sum(*all), sum_of(*all))
    op, inputs = whole(kernel.add_rms_norm, compiled), [x, residual, weight, EPS]
    verify_gradient(op, both, inputs, terms=TERMS, accumulate=dtype)
    for i in range(2):
        part = lambda function: lambda *all: function(*all)[i]
        verify_gradient(part(op), part(both), inputs, terms=TERMS, accumulate=dtype)


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", HEADS, ids=str)
def test_rope(shape, dtype, interleaved):
    batch, _, tokens, size = shape
    q, k = values(shape, dtype), values((batch, 2, tokens, size), dtype, 1)
    magnitude = lambda i: lambda *all: 8 * torch.ones_like(all[i])  # two products of values up to 2
    for angles in {1, batch}:
        cos, sin = (values((angles, tokens, size // 2), torch.float32, seed) for seed in (2, 3))
        for inverse in (False, True):
            for i in range(2):
                verify(
                    lambda *all: ops.rope(*all, interleaved, inverse)[i],
                    lambda *all: turned(all[i], *all[2:], interleaved, -1 if inverse else 1),
                    [q, k, cos, sin],
                    terms=2,
                    magnitude=magnitude(i),
                )


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize("layout", [*LAYOUTS, "apart"])
def test_layouts_of_rope(layout, interleaved):
    lay = apart if layout == "apart" else lambda tensor: laid_out(tensor, layout)
    q, k = (lay(values((2, 4, 6, 32), torch.bfloat16, seed)) for seed in range(2))
    cos, sin = (lay(values((2, 6, 16), torch.float32, seed)) for seed in (2, 3))
    heads_last = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)
    for inputs in ([q, k, cos, sin], [heads_last(q), heads_last(k)[:, :3], cos, sin], [q, k[:, :0], cos[:1], sin]):
        for i in range(2):
            verify(
                lambda *all: kernel.rope(*all, interleaved)[i],
                lambda *all: turned(all[i], *all[2:], interleaved),
                inputs,
                terms=2,
                magnitude=lambda *all: 8 * torch.ones_like(all[i]),
            )


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_autograd_of_rope(compiled, interleaved):
    cos, sin = (values((2, 5, 8), torch.float32, seed) for seed in (2, 3))
    op = whole(lambda q, k: kernel.rope(q, k, cos, sin, interleaved), compiled)
    both = lambda q, k: tuple(turned(x, cos.to(x.dtype), sin.to(x.dtype), interleaved) for x in (q, k))
    inputs = [values((2, 4, 5, 16), torch.float32), values((2, 2, 5, 16), torch.float32, 1)]
    verify_gradient(op, both, inputs)
    verify_gradient(lambda *all: op(*all)[1], lambda *all: both(*all)[1], inputs)


def test_gradients_of_angles_are_refused():
    q, k = values((1, 2, 3, 8), torch.float32), values((1, 2, 3, 8), torch.float32, 1)
    cos, sin = (values((1, 3, 4), torch.float32, seed).requires_grad_() for seed in (2, 3))
    with pytest.raises(RuntimeError, match="no backward for cos and sin"):
        kernel.rope(q, k, cos, sin)[0].sum().backward()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", COUNTS, ids=str)
def test_swiglu(shape, dtype):
    gate, up = values(shape, dtype, low=-20, high=20), values(shape, dtype, 1)
    magnitude = lambda gate, up: gate.abs() * up.abs()
    verify(kernel.swiglu, swiglu, [gate, up], terms=4, magnitude=magnitude)
    if gate.dim():
        both = torch.cat((gate, up), -1)
        verify(kernel.swiglu, packed, [both], terms=4, magnitude=lambda x: magnitude(*x.chunk(2, -1)))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -90.0, 90.0, -3e4, 0.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_swiglu_of_special_values(value, dtype):
    gate = torch.full((40,), value, dtype=dtype, device=DEVICES.device)
    expected = torch.nn.functional.silu(gate.float())
    found = kernel.swiglu(gate, torch.ones_like(gate)).float()
    torch.testing.assert_close(found, expected.to(dtype).float(), equal_nan=True, rtol=2**-7, atol=1e-30)


@pytest.mark.parametrize("columns", [256, 131])
@pytest.mark.parametrize("layout", [*LAYOUTS, "apart"])
def test_layouts_of_swiglu(layout, columns):
    lay = apart if layout == "apart" else lambda tensor: laid_out(tensor, layout)
    gate, up = (lay(values((3, 11, columns), torch.float16, seed)) for seed in range(2))
    magnitude = lambda gate, up: gate.abs() * up.abs()
    verify(kernel.swiglu, swiglu, [gate, up], terms=4, magnitude=magnitude)
    verify(kernel.swiglu, swiglu, [gate[:, ::2], up[:, ::2]], terms=4, magnitude=magnitude)
    both = lay(torch.cat((gate, up), -1))
    verify(kernel.swiglu, packed, [both], terms=4, magnitude=lambda x: magnitude(*x.chunk(2, -1)))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_autograd_of_swiglu(dtype, compiled):
    op = whole(kernel.swiglu, compiled)
    for columns in (131, 64):
        gate, up = values((5, columns), dtype, low=-8, high=8), values((5, columns), dtype, 1)
        verify_gradient(op, swiglu, [gate, up])
        verify_gradient(op, packed, [torch.cat((gate, up), -1)])


def test_second_derivatives_are_refused():
    x, other = (values((6, 96), torch.float32, seed).requires_grad_() for seed in range(2))
    outputs = [kernel.rms_norm(x, other[0]), kernel.add_rms_norm(x, x, other[0])[0]]
    for out in [*outputs, kernel.swiglu(x, other), kernel.swiglu(x)]:
        with pytest.raises(RuntimeError, match="no backward"):
            torch.autograd.grad(out.sum(), x, create_graph=True)


def test_refuses():
    x, weight = values((4, 8), torch.float32), values((8,), torch.float32)
    with pytest.raises(RuntimeError, match="no kernel for"):
        kernel.rms_norm(x.double(), weight.double())
    with pytest.raises(RuntimeError, match="residual has shape"):
        kernel.add_rms_norm(x, x[:2], weight)
    with pytest.raises(RuntimeError, match="weight is"):
        kernel.rms_norm(x, weight.half())
    with pytest.raises(RuntimeError, match="have no halves"):
        kernel.swiglu(x[:, :3])
    q, angles = values((1, 2, 3, 8), torch.float32), values((1, 3, 4), torch.float32)
    with pytest.raises(RuntimeError, match="not float32 of shape"):
        kernel.rope(q, q, angles.half(), angles)
    with pytest.raises(RuntimeError, match="an even head size"):
        kernel.rope(q[..., :7], q[..., :7], angles, angles)


def test_refuses_several_devices():
    x, weight = values((4, 8), torch.float32), values((8,), torch.float32)
    q, angles = values((1, 2, 3, 8), torch.float32), values((1, 3, 4), torch.float32)
    for call, given in (
        (kernel.rms_norm, [x, weight]),
        (kernel.add_rms_norm, [x, x.clone(), weight]),
        (kernel.swiglu, [x, x.clone()]),
        (kernel.rope, [q, q.clone(), angles, angles.clone()]),
    ):
        for i, tensor in enumerate(given):
            with pytest.raises(RuntimeError, match="several devices"):
                call(*given[:i], tensor.to("meta"), *given[i + 1 :])


def test_ops_are_sound():
    x, residual = (values((5, 24), torch.float32, seed).requires_grad_() for seed in range(2))
    weight = values((24,), torch.float32, 2).requires_grad_()
    torch.library.opcheck(ops.rms_norm.default, (x, weight, EPS))
    torch.library.opcheck(ops.add_rms_norm.default, (x, residual, weight, EPS))
    torch.library.opcheck(ops.swiglu.default, (x, residual))
    torch.library.opcheck(ops.swiglu_packed.default, (x,))
    q, k = (values((2, heads, 5, 16), torch.float32).requires_grad_() for heads in (4, 2))
    angles = values((1, 5, 8), torch.float32)
    torch.library.opcheck(ops.rope.default, (q, k, angles, angles, True, False))


@large(elements=2**31 + 2**16, bytes_each=9)
def test_more_than_int32():
    x = torch.zeros(2**15 + 1, 2**16, dtype=torch.float16, device=DEVICES.device)
    x[:, ::2] = 1
    weight = torch.ones(2**16, dtype=torch.float16, device=DEVICES.device)
    assert torch.equal(kernel.rms_norm(x, weight, 0.5), x)
    out, total = kernel.add_rms_norm(x, x, weight * 2, 2.0)
    assert (total == 2 * x).all()
    assert (out == 2 * x).all()
    del out, total
    assert ((kernel.swiglu(x, x) - 0.731).abs() < 0.001).sum() == x.numel() // 2
    angle = torch.ones(1, 2**15 + 1, 64, device=DEVICES.device)
    heads = x.view(1, -1, 512, 128).transpose(1, 2)
    turned_q, turned_k = kernel.rope(heads, heads[:, :1], angle, 2 * angle, True)
    assert (turned_q[..., ::2] == 1).all() and (turned_q[..., 1::2] == 2).all()
    assert torch.equal(turned_k, turned_q[:, :1])
