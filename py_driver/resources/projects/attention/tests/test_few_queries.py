"""Few queries against many keys, which have a kernel of their own on GPUs. Run them with `driver test`."""

import math

import pytest
import torch
from gradients import verify_gradient
from test_[[ module ]] import DTYPES, largest, lse_of, op, reference, rounded, tensors
from verify import DEVICES, verify

# batch, heads, heads of k, queries, keys: one key, a number of keys that fills no step, groups of three heads, several
# tiles of rows, many pairs of batch and head, queries that see no key.
SHAPES = [
    (2, 4, 2, 1, 1),
    (3, 6, 2, 1, 63),
    (1, 8, 8, 1, 129),
    (1, 8, 2, 1, 2049),
    (1, 40, 1, 1, 345),
    (70, 3, 1, 3, 50),
    (1, 8, 2, 8, 777),
    (2, 8, 2, 7, 301),
    (2, 6, 2, 5, 4),
    (1, 9, 3, 16, 3),
    (40, 3, 3, 2, 300),  # so many heads that Hopper's kernel for many queries is the faster one
]
WIDTHS = [64, 128, 256]


def exactness(dtype):
    return rounded(dtype) if dtype != torch.float32 else {"terms": 256}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_few_queries(shape, width, dtype, causal):
    given = [*tensors(shape, width, dtype), causal]
    verify(op, reference, given, **exactness(dtype), magnitude=largest(lambda q, k, v: v.abs()))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 6])
@pytest.mark.parametrize("width", WIDTHS)
def test_log_sum_exp(width, queries, causal):
    given = [*tensors((2, 6, 2, queries, 333), width, torch.bfloat16), causal]
    bound = largest(lambda q, k, v: q.abs().amax(-1, keepdim=True) * k.abs().amax() * width**0.5 + 1)
    verify(lambda *all: op(*all, return_lse=True)[1], lse_of, given, terms=64, magnitude=bound)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_scores(dtype):
    q, k, v = tensors((2, 4, 2, 1, 1030), 128, dtype)
    exact = rounded(dtype) if dtype != torch.float32 else {"terms": 2048}
    verify(op, reference, [q * 16, k * 4, v, False], **exact, magnitude=largest(lambda q, k, v: v.abs()))


@pytest.mark.parametrize("heads_last", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_cache_that_is_not_full(width, heads_last):
    q, k, v = tensors((2, 8, 2, 1, 300), width, torch.bfloat16)
    padded = [torch.nn.functional.pad(tensor, (0, 0, 3, 77), value=math.nan) for tensor in (k, v)]
    if heads_last:
        padded = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in padded]
    out = op(q, *(tensor[:, :, 3:303] for tensor in padded), True)
    assert torch.equal(out, op(q, k, v, True))
    assert out.isfinite().all()


@pytest.mark.skipif(DEVICES.device == "cpu", reason="a CPU has no graphs")
def test_graph():
    q, k, v = tensors((2, 8, 2, 1, 5000), 128, torch.bfloat16)
    expected = op(-q, k, v)
    op(q, k, v)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(q, k, v)
    q.neg_()
    for _ in range(2):
        out.zero_()
        graph.replay()
        assert torch.equal(out, expected)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype, queries):
    exact = {"terms": 64} if dtype == torch.float32 else {"terms": 8, "accumulate": dtype}
    verify_gradient(op, reference, [*tensors((2, 4, 2, queries, 90), 128, dtype), True], **exact)
