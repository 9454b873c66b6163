"""Sequences of several lengths, one after another. Run them with `driver test`."""

import itertools
import math

import pytest
import torch
from gradients import verify_gradient
from test_[[ module ]] import DTYPES, WIDTHS, kernel, lse_of, op, reference, rounded
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

varlen = kernel.[[ module ]]_varlen

# The lengths of q and k: one row, a tile and more, no multiple of a tile; more queries than keys, so that causal ones
# see no key; empty sequences at any place; one sequence; none; more than one block searches at a time.
LENGTHS = {
    "one": ([77], [133]),
    "rows": ([1, 1, 1], [1, 2, 3]),
    "tiles": ([128, 64, 192, 256], [176, 128, 80, 352]),
    "mixed": ([3, 200, 65, 1, 129], [40, 390, 64, 7, 177]),
    "many queries": ([70, 20, 260], [3, 20, 133]),
    "empty": ([0, 5, 0, 0, 130, 0], [9, 0, 0, 200, 131, 0]),
    "no keys": ([5, 130], [0, 0]),
    "no queries": ([0, 0], [4, 300]),
    "none": ([], []),
    "tiny": ([i % 5 for i in range(75)], [i % 7 for i in range(75)]),
}
if DEVICES.device == "cpu":  # whose kernel has no tiles
    LENGTHS = {name: tuple([(rows + 7) // 8 for rows in side] for side in both) for name, both in LENGTHS.items()}
HEADS = [(4, 2), (3, 3), (4, 1)]


def offsets(lengths):
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=DEVICES.device)


def inputs(lengths, heads, width, dtype, after=0):
    """q, k and v, with rows after the last sequence, and what follows them."""
    sizes = [(sum(own) + after, count, width) for own, count in zip((*lengths, lengths[1]), (*heads, heads[1]))]
    tensors = [make(size, dtype, low=-2, high=2, seed=seed) for seed, size in enumerate(sizes)]
    return [*tensors, *map(offsets, lengths), *(max(own, default=0) for own in lengths)]


def parts(tensor, begins):
    """Each sequence as a batch of its own."""
    begins = begins.tolist()
    return [tensor[first:last].transpose(0, 1)[None] for first, last in zip(begins, begins[1:])]


def joined(pieces, like, rows):
    """The rows of all sequences, and zeros after them."""
    pieces = [piece[0].transpose(0, 1) for piece in pieces]
    found = torch.cat(pieces) if pieces else like[:0]
    return torch.cat([found, found.new_zeros(rows - len(found), *found.shape[1:])])


def by_sequence(q, k, v, begins_q, begins_k, most_q, most_k, causal):
    sequences = zip(parts(q, begins_q), parts(k, begins_k), parts(v, begins_k))
    return joined([reference(*sequence, causal) for sequence in sequences], q, len(q))


def bound(q, k, v, *_):
    return v.abs().amax() if v.numel() else v.new_ones(())


def exactness(dtype):
    return rounded(dtype) if dtype != torch.float32 else {"terms": 256}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_varlen(lengths, width, dtype, causal):
    for heads in HEADS if width in (128, 40) else HEADS[:1]:
        given = [*inputs(lengths, heads, width, dtype), causal]
        verify(varlen, by_sequence, given, **exactness(dtype), magnitude=bound)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_log_sum_exp(width, causal):
    def lse(q, k, v, begins_q, begins_k, most_q, most_k, causal):
        sequences = zip(parts(q, begins_q), parts(k, begins_k), parts(v, begins_k))
        found = [lse_of(*sequence, causal)[0] for sequence in sequences]
        after = q.new_full((q.shape[1], len(q) - int(begins_q[-1])), -math.inf)
        return torch.cat([*found, after], 1)

    def size(q, k, *_):
        return q.abs().amax() * k.abs().amax() * width**0.5 + 1

    given = [*inputs(LENGTHS["mixed"], (4, 2), width, torch.bfloat16, after=5), causal]
    verify(lambda *all: varlen(*all, return_lse=True)[1], lse, given, terms=64, magnitude=size)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [64, 128, 256, 24])
@pytest.mark.parametrize("name", ["mixed", "empty", "many queries"])
def test_gradients(name, width, dtype, causal):
    exact = {"terms": 64} if dtype == torch.float32 else {"terms": 8, "accumulate": dtype}
    verify_gradient(varlen, by_sequence, [*inputs(LENGTHS[name], (4, 2), width, dtype), causal], **exact)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [64, 128, 256, 40])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nothing_leaks(value, width, dtype, causal):
    lengths = ([30, 150, 65, 1], [200, 77, 177, 3]) if DEVICES.device != "cpu" else ([3, 15, 7, 1], [20, 8, 17, 3])
    *tensors, begins_q, begins_k, most_q, most_k = inputs(lengths, (4, 2), width, dtype, after=40)
    grad = make(tensors[0].shape, dtype, low=-2, high=2, seed=7)

    def run(keep=None):
        own = [tensor.clone() for tensor in (*tensors, grad)]
        spans = [begins[keep : keep + 2].tolist() if keep is not None else None for begins in (begins_q, begins_k)]
        if keep is not None:
            for tensor, (first, last) in zip(own, (spans[0], spans[1], spans[1], spans[0])):
                tensor[:first] = tensor[last:] = value
        leaves = [tensor.requires_grad_() for tensor in own[:3]]
        out = varlen(*leaves, begins_q, begins_k, most_q, most_k, causal)
        grads = torch.autograd.grad(out, leaves, own[3])
        assert not out[begins_q[-1] :].any()
        assert not any(one[begins[-1] :].any() for one, begins in zip(grads, (begins_q, begins_k, begins_k)))
        return [out.detach(), *grads], spans

    expected, _ = run()
    for i in range(4):
        found, (of_q, of_k) = run(i)
        for one, other, (first, last) in zip(found, expected, (of_q, of_q, of_k, of_k)):
            assert one[first:last].isfinite().all()
            torch.testing.assert_close(one[first:last], other[first:last])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_same_as_a_batch(width, causal):
    rows = ([150] * 3, [210] * 3) if DEVICES.device != "cpu" else ([15] * 3, [21] * 3)
    q, k, v, *rest = inputs(rows, (4, 2), width, torch.bfloat16)
    batch = [tensor.unflatten(0, (3, -1)).transpose(1, 2) for tensor in (q, k, v)]
    assert torch.equal(varlen(q, k, v, *rest, causal), op(*batch, causal).transpose(1, 2).flatten(0, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    q, k, v, *rest = inputs(LENGTHS["mixed"], (4, 2), 64, torch.float16)
    given = [*(laid_out(tensor, layout) for tensor in (q, k, v)), *rest, True]
    verify(varlen, by_sequence, given, **rounded(torch.float16), magnitude=bound)


@pytest.mark.parametrize("width", [64, 128, 256, 40])
def test_views_of_one_projection(width):
    q, k, v, *rest = inputs(LENGTHS["mixed"], (4, 2), width, torch.bfloat16)
    rows = max(len(q), len(k))
    both = torch.full((rows, 8, width), math.nan, dtype=q.dtype, device=q.device)
    split = [both[: len(one), first : first + one.shape[1]] for one, first in ((q, 0), (k, 4), (v, 6))]
    for view, one in zip(split, (q, k, v)):
        view.copy_(one)
    assert torch.equal(varlen(*split, *rest, True), varlen(q, k, v, *rest, True))
    heads_first = [tensor.transpose(0, 1).contiguous().transpose(0, 1) for tensor in (q, k, v)]
    assert torch.equal(varlen(*heads_first, *rest, True), varlen(q, k, v, *rest, True))


@pytest.mark.parametrize("width", [128, 40])
def test_longest_lengths_that_are_wrong(width):
    q, k, v, begins_q, begins_k, most_q, most_k = inputs(LENGTHS["mixed"], (4, 2), width, torch.bfloat16)
    if DEVICES.device == "cpu":
        with pytest.raises(RuntimeError, match=f"a sequence has {most_q} rows, not 0 to {most_q - 1}"):
            varlen(q, k, v, begins_q, begins_k, most_q - 1, most_k)
    else:
        found = varlen(q, k, v, begins_q, begins_k, 1, 1)
        assert torch.equal(found, varlen(q, k, v, begins_q, begins_k, most_q, most_k))


@pytest.mark.skipif(DEVICES.device == "cpu", reason="a CPU checks offsets")
@pytest.mark.parametrize("wrong", [(5, 9, 30), (0, 40, 20), (0, -7, 900), (0, 10, -1), (0, 2**31 - 1, -(2**31))])
@pytest.mark.parametrize("width", [128, 40])
def test_wrong_offsets_stay_inside(width, wrong):
    q, k, v, *_ = inputs(([30, 20], [30, 20]), (2, 1), width, torch.bfloat16)
    begins = torch.tensor(wrong, dtype=torch.int32, device=q.device)
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    varlen(*leaves, begins, begins, 30, 30).sum().backward()
    torch.cuda.synchronize()


@pytest.mark.skipif(DEVICES.device == "cpu", reason="a CPU has no graphs")
@pytest.mark.parametrize("width", [128, 40])
def test_graph_with_other_offsets(width):
    q, k, v, begins_q, begins_k, *_ = inputs(LENGTHS["mixed"], (4, 2), width, torch.bfloat16)
    grad = torch.ones_like(q)
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]

    def call(*begins):
        out = varlen(*leaves, *begins, 400, 400, True)
        return [out.detach(), *torch.autograd.grad(out, leaves, grad)]

    call(begins_q, begins_k)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call(begins_q, begins_k)
    for lengths in LENGTHS["mixed"], ([100, 0, 198, 50, 50], [300, 1, 199, 100, 78]), ([5] * 5, [7] * 5):
        for begins, own in zip((begins_q, begins_k), lengths):
            begins.copy_(offsets(own))
        for tensor in found:
            tensor.fill_(math.nan)
        graph.replay()
        for one, other in zip(found, call(begins_q, begins_k)):
            torch.testing.assert_close(one, other)


@large(elements=2**31, bytes_each=10)
def test_offsets_beyond_int32():
    # 65600 sequences of 16 rows: the last ones begin after 2^31 elements.
    count, heads, width = 65600, 8, 256
    q, k, v = (torch.randn(count * 16, heads, width, dtype=torch.bfloat16, device=DEVICES.device) for _ in range(3))
    begins = torch.arange(0, count * 16 + 1, 16, dtype=torch.int32, device=q.device)
    out = varlen(q, k, v, begins, begins, 16, 16, True)
    last = varlen(*(tensor[-320:].clone() for tensor in (q, k, v)), begins[:21], begins[:21], 16, 16, True)
    assert torch.equal(out[-320:], last)


def test_gradients_of_empty_tensors():
    q, k, v, *rest = inputs(([0, 0], [0, 3]), (2, 1), 64, torch.float32, after=0)
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    varlen(*leaves, *rest).sum().backward()
    assert not any(leaf.grad.any() for leaf in leaves)


def test_compiled_autograd():
    compiled = torch.compile(varlen, backend="aot_eager", fullgraph=True)
    given = [*inputs(([3, 0, 6], [5, 2, 4]), (2, 1), 16, torch.float32), True]
    verify_gradient(compiled, by_sequence, given, terms=64)


def test_second_derivatives_are_refused():
    q, k, v, *rest = inputs(([2, 3], [4, 1]), (2, 1), 8, torch.float32)
    with pytest.raises(RuntimeError, match="no backward"):
        torch.autograd.grad(varlen(q.requires_grad_(), k, v, *rest).sum(), q, create_graph=True)


def test_refuses():
    q, k, v, begins, begins_k, *most = inputs(([2, 3], [4, 1]), (4, 2), 16, torch.float32)
    for message, given in {
        "not \\[rows, heads": [q[None], k, v, begins, begins_k],
        "no multiple of the": [q[:, :3], k, v, begins, begins_k],
        "k has shape": [q, k, v[:, :1], begins, begins_k],
        "k Half": [q, k.half(), v, begins, begins_k],
        "and type Long": [q, k, v, begins.long(), begins_k],
        "offsets have shape": [q, k, v, begins[None], begins_k],
        "q has 1 sequences, k 2": [q, k, v, begins[:2], begins_k],
    }.items():
        with pytest.raises(RuntimeError, match=message):
            varlen(*given, *most)
    for i, tensor in enumerate(given := [q, k, v, begins, begins_k]):
        with pytest.raises(RuntimeError, match="several devices"):
            varlen(*given[:i], tensor.to("meta"), *given[i + 1 :], *most)
    if DEVICES.device == "cpu":
        for wrong in ([1, 2, 5], [0, 3, 9]):
            with pytest.raises(RuntimeError, match="not from 0 to at most 5"):
                varlen(q, k, v, torch.tensor(wrong, dtype=torch.int32), begins_k, *most)
        with pytest.raises(RuntimeError, match="a sequence has -2 rows"):
            varlen(q, k, v, torch.tensor([0, 4, 2], dtype=torch.int32), begins_k, 9, 9)
    else:
        with pytest.raises(RuntimeError, match="on another device"):
            varlen(q, k, v, begins.cpu(), begins_k, *most)


def test_op_is_sound():
    q, k, v, *rest = inputs(([2, 3], [4, 1]), (4, 2), 16, torch.float32)
    given = [tensor.requires_grad_() for tensor in (q, k, v)]
    torch.library.opcheck(kernel._ops.ops.[[ module ]]_varlen.default, (*given, *rest, True, 0.25))
