"""The kernels against float64. Run them with `driver test`."""

import math

import kernels
import pytest
import torch
from gradients import verify_gradient
from verify import DEVICES, LAYOUTS, laid_out, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

# batch, heads, heads of k, queries, keys: one tile, several, no multiple of a tile; queries that see no key.
SHAPES = [
    (1, 1, 1, 1, 1),
    (2, 4, 2, 64, 64),
    (1, 3, 3, 77, 133),
    (1, 4, 1, 133, 77),
    (2, 2, 2, 1, 300),
    (1, 2, 2, 300, 1),
    (1, 6, 2, 260, 390),
    (1, 1, 1, 5, 0),
    (0, 2, 1, 3, 3),
    (1, 2, 1, 0, 3),
]
WIDTHS = [64, 128, 256, 40, 5]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def tensors(shape, width, dtype):
    batch, heads, kv_heads, queries, keys = shape
    sizes = [(batch, heads, queries, width), (batch, kv_heads, keys, width), (batch, kv_heads, keys, width)]
    return [make(size, dtype, low=-2, high=2, seed=seed) for seed, size in enumerate(sizes)]


def scores(q, k, causal):
    products = q @ k.repeat_interleave(q.shape[1] // max(k.shape[1], 1), 1).mT * q.shape[-1] ** -0.5
    if causal:
        queries, keys = products.shape[-2:]
        unseen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(1 + keys - queries)
        products = products.masked_fill(unseen, -math.inf)
    return products


def weights(q, k, causal):
    products = scores(q, k, causal)
    padded = torch.nn.functional.pad(products, (0, 1), value=-math.inf)
    seen = padded.amax(-1, keepdim=True) > -math.inf
    return torch.where(seen, torch.softmax(torch.where(seen, products, 0.0), -1), 0.0)


def reference(q, k, v, causal):
    return weights(q, k, causal) @ v.repeat_interleave(q.shape[1] // max(v.shape[1], 1), 1)


def lse_of(q, k, v, causal):
    return torch.logsumexp(scores(q, k, causal), -1)


def largest(values):
    """A bound for each element: the largest value of all that are averaged."""
    return lambda q, k, v, causal: values(q, k, v).amax() if q.numel() and v.numel() else v.new_ones(())


def rounded(dtype):
    """How exact the weights are that are multiplied with v: Hopper's tensor cores take them in the type of v."""
    return {"accumulate": dtype, "terms": 2}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(shape, width, dtype, causal):
    given = [*tensors(shape, width, dtype), causal]
    exact = rounded(dtype) if dtype != torch.float32 else {"terms": 256}
    bound = largest(lambda q, k, v: v.abs())
    verify(op, reference, given, **exact, magnitude=bound)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_log_sum_exp(width, dtype, causal):
    given = [*tensors((1, 4, 2, 200, 333), width, dtype), causal]
    bound = largest(lambda q, k, v: q.abs().amax(-1, keepdim=True) * k.abs().amax() * width**0.5 + 1)
    verify(lambda *all: op(*all, return_lse=True)[1], lse_of, given, terms=64, magnitude=bound)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_scores(dtype):
    q, k, v = tensors((1, 2, 2, 150, 260), 64, dtype)
    exact = rounded(dtype) if dtype != torch.float32 else {"terms": 2048}
    verify(op, reference, [q * 16, k * 4, v, False], **exact, magnitude=largest(lambda q, k, v: v.abs()))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    q, k, v = (laid_out(tensor, layout) for tensor in tensors((2, 4, 2, 70, 90), 64, torch.float16))
    verify(op, reference, [q, k, v, True], **rounded(torch.float16), magnitude=largest(lambda q, k, v: v.abs()))


def test_rows_of_all_heads():
    given = tensors((2, 4, 2, 70, 90), 128, torch.bfloat16)
    q, k, v = (tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in given)
    verify(op, reference, [q, k, v, True], **rounded(torch.bfloat16), magnitude=largest(lambda q, k, v: v.abs()))
    assert op(q, k, v).transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 4, 2, 33, 50), (1, 2, 1, 50, 33), (2, 2, 2, 130, 130), (1, 1, 1, 3, 0)], ids=str)
@pytest.mark.parametrize("width", [64, 128, 24])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype, width, shape, causal):
    # What the backward reads, the weights and their gradients, is rounded to the type of the tensors.
    exact = {"terms": 64} if dtype == torch.float32 else {"terms": 8, "accumulate": dtype}
    verify_gradient(op, reference, [*tensors(shape, width, dtype), causal], **exact)


def test_gradients_of_empty_tensors():
    q, k, v = (tensor.requires_grad_() for tensor in tensors((1, 2, 1, 0, 3), 64, torch.float32))
    op(q, k, v).sum().backward()
    assert not k.grad.any()
    assert not v.grad.any()


def test_compiled_autograd():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, reference, [*tensors((1, 2, 1, 9, 12), 16, torch.float32), True], terms=64)


def test_second_derivatives_are_refused():
    q, k, v = (tensor.requires_grad_() for tensor in tensors((1, 1, 1, 4, 4), 8, torch.float32))
    with pytest.raises(RuntimeError, match="no backward"):
        torch.autograd.grad(op(q, k, v).sum(), q, create_graph=True)


def test_refuses():
    q, k, v = tensors((1, 4, 2, 8, 8), 16, torch.float32)
    for message, given in {
        "no kernel for": [tensor.double() for tensor in (q, k, v)],
        "not \\[batch, heads": [q[0], k, v],
        "no multiple of the": [q[:, :3], k, v],
        "k has shape": [q, k, v[:, :1]],
        "k Half": [q, k.half(), v],
        "wide, not 1 to": [torch.cat([tensor] * 17, -1) for tensor in (q, k, v)],
    }.items():
        with pytest.raises(RuntimeError, match=message):
            op(*given)
    for scale in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(RuntimeError, match="not a positive number"):
            op(q, k, v, scale=scale)


def test_op_is_sound():
    given = [tensor.requires_grad_() for tensor in tensors((1, 4, 2, 5, 7), 16, torch.float32)]
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (*given, True, 0.25))


@pytest.mark.skipif(DEVICES.device != "cpu", reason="a GPU rounds such scores in another way")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [100, 128])
def test_large_scores(width, dtype):
    torch.manual_seed(0)
    inputs = [torch.randn(1, 1, rows, width) * factor for rows, factor in ((8, 1e4), (33, 1e4), (33, 1))]
    inputs = [tensor.to(dtype).requires_grad_() for tensor in inputs]
    # In float64, since torch's gradients of such scores have been wrong in float32 (torch 2.13, on one of two CPUs).
    q, k, v = (tensor.detach().double().requires_grad_() for tensor in inputs)
    expected = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width), dim=-1) @ v
    out = op(*inputs)
    assert torch.equal(out, expected.to(dtype))
    [actual] = torch.autograd.grad(out.sum(), inputs[2])
    [wanted] = torch.autograd.grad(expected.sum(), v)
    torch.testing.assert_close(actual.double(), wanted, atol=0.01, rtol=0)
