"""The kernels against a loop over experts in float64. Run them with `driver test`."""

import math

import kernels
import pytest
import torch
from gradients import verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
ops = kernel._ops.ops

NARROW = [torch.float16, torch.bfloat16]
# Tokens, experts, k: one of each, all experts, more experts than a warp has lanes, more pairs than a warp sorts.
ROUTES = [(1, 1, 1), (3, 8, 2), (70, 5, 5), (33, 64, 8), (9, 1024, 6), (700, 128, 8), (3000, 7, 1), (0, 8, 2)]
# How many rows each expert has: none, one, a tile of the GPU, more than that; none at all.
GROUPS = [(3, 0, 5), (0, 0, 0, 130), (128, 127, 129, 1), (1,), (0, 0), (300, 0, 17, 64, 0)]
# Depth and columns: no tile of the GPU has all of the latter; those that no vector load fits.
SIZES = [(64, 128), (40, 264), (33, 7), (8, 8), (256, 65), (72, 24)]
# Enough of both for the kernel of Hopper GPUs, whose tiles of 128 rows are in pairs: with an odd tile, without one, a
# full tile alone, a row alone, half of a tile without rows, more pairs than a band has; many experts of a few rows.
PAIRS = [(385, 0, 128, 1, 600), (2400,), (5, 0, 70, 30) * 20]
# Odd and even numbers of its tiles across; rows of the output, and of x, that do not begin at multiples of 16 bytes.
PAIR_SIZES = [(136, 1032), (64, 1160), (72, 1030), (67, 1040)]


def routed(logits, k):
    """Experts of each token, the largest logits first, and of equal ones the first."""
    return logits.double().sort(dim=-1, descending=True, stable=True).indices[:, :k]


def check(routing, logits, k):
    """Assert that the order of a routing is that of a stable sort, and fits its experts."""
    experts = routed(logits, k)
    assert torch.equal(routing.experts.long(), experts)
    pairs = experts.flatten()
    order = pairs.argsort(stable=True)
    counts = torch.bincount(pairs, minlength=logits.shape[1])
    assert torch.equal(routing.offsets.long(), torch.nn.functional.pad(counts.cumsum(0), (1, 0)))
    assert torch.equal(routing.sources.long(), order // k)
    assert torch.equal(routing.places.flatten().long()[order], torch.arange(pairs.numel(), device=pairs.device))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, *NARROW], ids=str)
@pytest.mark.parametrize("sizes", ROUTES, ids=str)
def test_route(sizes, dtype, normalize):
    tokens, count, k = sizes
    logits = make((tokens, count), dtype, low=-4, high=4)  # numbers of 16 bits are equal now and then
    routing = kernel.route(logits, k, normalize)
    check(routing, logits, k)

    def weights(logits):
        chosen = logits.gather(-1, routed(logits, k))
        return chosen.softmax(-1) if normalize else (chosen - logits.logsumexp(-1, keepdim=True)).exp()

    # The exponent of e, up to 8, is rounded, too.
    verify(lambda logits: ops.route(logits, k, normalize)[0], weights, [logits], terms=count + 40, magnitude=weights)
    for i in range(1, 5):
        verify(lambda logits: ops.route(logits, k, normalize)[i], lambda _: routing[i].long(), [logits])


def test_route_takes_the_same_experts_as_topk():
    logits = torch.stack([torch.randperm(64, device=DEVICES.device) for _ in range(200)]) / 8
    assert torch.equal(kernel.route(logits, 6).experts.long(), logits.topk(6).indices)


@pytest.mark.parametrize("value", [0.0, 1.5, float("nan"), float("-inf")])
def test_route_of_equal_logits(value):
    logits = torch.full((40, 12), value, device=DEVICES.device)
    routing = kernel.route(logits, 3)
    assert (routing.experts == torch.arange(3, device=DEVICES.device)).all()
    assert routing.offsets.tolist() == [0, 40, 80, *[120] * 10]
    assert routing.weights.isnan().all() == (not math.isfinite(value))


def test_route_of_special_values():
    inf, nan = float("inf"), float("nan")
    rows = [0.0, -0.0, 0.0, -1.0], [-inf, 3.0, -inf, 2.0], [1.0, nan, inf, nan], [inf, 1.0, 2.0, inf]
    experts = [0, 1, 2], [1, 3, 0], [1, 3, 2], [0, 3, 2]
    routing = kernel.route(torch.tensor(rows, device=DEVICES.device), 3)
    assert routing.experts.tolist() == [*experts]
    assert routing.weights[1, 2] == 0
    assert routing.weights[2].isnan().all()


def weights_of(count, depth, columns, dtype, by_columns):
    made = make((count, depth, columns), dtype, low=-1, high=1, seed=1)
    return made.mT.contiguous().mT if by_columns else made


def loop(x, weights, offsets, sources=None):
    x = x if sources is None else x[sources]
    ends = offsets.tolist()
    parts = [x[begin:end] @ weights[i] for i, (begin, end) in enumerate(zip(ends, ends[1:]))]
    return torch.cat([x.new_empty(0, weights.shape[2]), *parts])


def product_terms(x, weights, offsets, sources=None):
    return loop(x.abs(), weights.abs(), offsets, sources)


def given_product(groups, depth, columns, dtype, by_columns=False, tokens=None):
    rows = sum(groups)
    x = make((rows if tokens is None else tokens, depth), dtype, low=-1, high=1)
    offsets = torch.tensor([0, *groups], dtype=torch.int32, device=DEVICES.device).cumsum(0, dtype=torch.int32)
    sources = None if tokens is None else make((rows,), torch.int32, low=0, high=tokens, seed=2)
    return [x, weights_of(len(groups), depth, columns, dtype, by_columns), offsets, sources]


@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_product(groups, dtype, by_columns):
    for depth, columns in SIZES:
        for tokens in (None, 9):
            given = given_product(groups, depth, columns, dtype, by_columns, tokens)
            verify(kernel.grouped_product, loop, given, terms=depth, magnitude=product_terms)


@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_product_of_many_tiles(dtype, by_columns):
    # More tiles than a GPU has multiprocessors, in two bands of them; and so many rows that tiles are large.
    for groups, tokens in (((2100, 0, 900), 64), ((0, 5000, 1, 0, 129), None)):
        for depth, columns in ((96, 1100), (33, 1027), (200, 1024), (1, 1030)):
            given = given_product(groups, depth, columns, dtype, by_columns, tokens)
            verify(kernel.grouped_product, loop, given, terms=depth, magnitude=product_terms)


@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_product_of_many_experts(dtype, by_columns):
    given = given_product([8, 0, 70] * 40, 136, 72, dtype, by_columns, tokens=9)
    verify(kernel.grouped_product, loop, given, terms=136, magnitude=product_terms)


@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("groups", PAIRS, ids=["few", "one", "many"])
def test_product_of_pairs_of_tiles(groups, dtype, by_columns):
    for depth, columns in PAIR_SIZES:
        for tokens in (None, 50):
            given = given_product(groups, depth, columns, dtype, by_columns, tokens)
            verify(kernel.grouped_product, loop, given, terms=depth, magnitude=product_terms)


@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
def test_layouts_of_pairs_of_tiles(by_columns):
    x, weights, offsets, _ = given_product(PAIRS[0], 136, 1032, torch.float16, by_columns)
    for inputs in (
        [x[:, 8:], weights[:, 8:], offsets],  # rows with something between
        [x[:, 1:129], weights[:, :128], offsets],  # rows of x that do not begin at multiples of 16 bytes
        [x, weights[..., 16:], offsets],
        [x, weights[:1].expand(5, -1, -1), offsets],
        [x.mT.contiguous().mT, weights, offsets],
        [x, weights.transpose(0, 1).contiguous().transpose(0, 1), offsets],
    ):
        verify(kernel.grouped_product, loop, inputs, terms=136, magnitude=product_terms)


@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("groups", [(3, 5), (385, 700)], ids=["small", "large"])
def test_experts_do_not_meet(groups, by_columns):
    # No tile has all of this depth or these columns: what lies behind them is the next expert's.
    x, weights, offsets, _ = given_product(groups, 168, 1048, torch.float16, by_columns)
    expected = kernel.grouped_product(x, weights, offsets)
    x[groups[0] :] = float("nan")
    weights[1] = float("nan")
    found = kernel.grouped_product(x, weights, offsets)
    assert torch.equal(found[: groups[0]], expected[: groups[0]])
    assert found[groups[0] :].isnan().all()


def test_rows_after_the_last_expert():
    written = 45 if DEVICES.device == "cpu" else 4  # a GPU leaves the others as they are
    for tokens in (None, 16):
        x, weights, offsets, sources = given_product((5, 0, 40), 48, 56, torch.float16, tokens=tokens)
        verify(
            lambda *given: kernel.grouped_product(*given)[:written],
            lambda *given: torch.nn.functional.pad(loop(*given), (0, 0, 0, written - 4)),
            [x, weights, offsets.clamp(max=4), sources],
            terms=48,
            magnitude=lambda *given: torch.nn.functional.pad(product_terms(*given), (0, 0, 0, written - 4)),
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    x, weights, offsets, sources = given_product((5, 0, 40), 48, 56, torch.float16, tokens=16)
    given = [laid_out(x, layout), laid_out(weights, layout), offsets, sources]
    verify(kernel.grouped_product, loop, given, terms=48, magnitude=product_terms)
    given[0], given[1] = x[:, 8:], weights[:, :40, 3:]
    verify(kernel.grouped_product, loop, given, terms=40, magnitude=product_terms)
    given[1] = weights[:1].expand(3, 48, 56)[:, 8:]
    verify(kernel.grouped_product, loop, given, terms=40, magnitude=product_terms)


def sums(values, weights, places):
    return (values[places] * weights[..., None]).sum(1)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("sizes", [(5, 2, 64), (33, 1, 1000), (7, 8, 33), (0, 2, 8), (3, 2, 0), (300, 6, 128)], ids=str)
def test_combine(sizes, dtype):
    tokens, k, columns = sizes
    values = make((max(1, tokens * k), columns), dtype, low=-2, high=2)
    places = make((tokens, k), torch.int32, low=0, high=values.shape[0], seed=1)
    verify(kernel.combine, sums, [values, make((tokens, k), torch.float32, low=0, high=1, seed=2), places], terms=k)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_combine(layout):
    values, weights = make((12, 40), torch.float16), make((6, 2), torch.float32)
    places = make((6, 2), torch.int32, low=0, high=12)
    verify(kernel.combine, sums, [laid_out(tensor, layout) for tensor in (values, weights, places)], terms=2)


def whole(x, logits, gate_up, down, k):
    """What a layer computes, of what the kernels round: each product, and what stands between them."""
    weights, experts, *_ = kernel.route(logits, k)
    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for i in range(k):
        for expert in range(logits.shape[1]):
            rows = (experts[:, i] == expert).nonzero()[:, 0]
            gate, up = (x[rows].double() @ gate_up[expert].double()).to(x.dtype).chunk(2, -1)
            values = (torch.nn.functional.silu(gate) * up).double() @ down[expert].double()
            out.index_add_(0, rows, values.to(x.dtype).double() * weights[rows, i, None].double())
    return out


@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_layer(dtype, k):
    x, logits = make((50, 72), dtype, low=-1, high=1), make((50, 6), torch.float32, seed=3)
    gate_up, down = weights_of(6, 72, 96, dtype, by_columns=True), weights_of(6, 48, 72, dtype, by_columns=False)
    favoured = logits * torch.tensor([0.0, 0, 1, 0, 0, 0], device=x.device)
    for inputs in ((x, logits), (x, favoured), (x[:0], logits[:0])):
        found = kernel.[[ module ]](*inputs, gate_up, down, k)
        expected = whole(*inputs, gate_up, down, k)
        # A sum on the edge between two numbers of 16 bits may be rounded to the other one in each of three places.
        unit = torch.finfo(dtype).eps * expected.abs().max() if len(expected) else 0
        assert ((found.double() - expected).abs() <= 3 * unit).all()
        assert torch.equal(found, kernel.[[ module ]](*inputs, gate_up, down, k))


def test_compiled():
    x, logits = make((50, 72), torch.float16, low=-1, high=1), make((50, 6), torch.float32, seed=3)
    weights = [weights_of(6, 72, 96, x.dtype, by_columns=False), weights_of(6, 48, 72, x.dtype, by_columns=False)]
    compiled = torch.compile(kernel.[[ module ]], backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, logits, *weights, 2), kernel.[[ module ]](x, logits, *weights, 2))


def test_nothing_waits_for_the_gpu():
    if DEVICES.device == "cpu":
        pytest.skip("there are no graphs on a CPU")
    x, logits = make((300, 72), torch.float16, low=-1, high=1), make((300, 6), torch.float32, seed=3)
    weights = [weights_of(6, 72, 96, x.dtype, by_columns=False), weights_of(6, 48, 72, x.dtype, by_columns=False)]
    expected = kernel.[[ module ]](x, logits, *weights, 2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernel.[[ module ]](x, logits, *weights, 2)
    graph.replay()
    assert torch.equal(out, expected)


def test_there_is_no_gradient():
    verify_no_gradient(lambda logits: kernel.route(logits, 2).weights, [make((5, 4), torch.float32)])
    given = given_product((2, 3), 16, 8, torch.float16)[:3]
    verify_no_gradient(kernel.grouped_product, given)
    places = torch.zeros(5, 2, dtype=torch.int32, device=DEVICES.device)
    verify_no_gradient(kernel.combine, [given[0], make((5, 2), torch.float32), places])


def test_refuses():
    x, weights, offsets, _ = given_product((2, 3), 16, 8, torch.float16)
    with pytest.raises(RuntimeError, match="no kernel for"):
        kernel.grouped_product(x.float(), weights.float(), offsets)
    with pytest.raises(RuntimeError, match="offsets is"):
        kernel.grouped_product(x, weights, offsets.long())
    with pytest.raises(RuntimeError, match="offsets has 2 elements"):
        kernel.grouped_product(x, weights, offsets[:2])
    with pytest.raises(RuntimeError, match="no experts for 5 rows"):
        kernel.grouped_product(x, weights[:0], offsets[:1])
    with pytest.raises(RuntimeError, match="x has shape"):
        kernel.grouped_product(x[:, :8], weights, offsets)
    logits = make((5, 4), torch.float32)
    for k in (0, 5):
        with pytest.raises(RuntimeError, match="not 1 to 4"):
            kernel.route(logits, k)
    with pytest.raises(RuntimeError, match="no kernel for"):
        kernel.route(logits.double(), 2)
    with pytest.raises(RuntimeError, match="weights has shape"):
        kernel.combine(x, logits, offsets.view(1, 3))
    places = torch.zeros(5, 4, dtype=torch.int32, device=DEVICES.device)
    for call, given in ((kernel.grouped_product, [x, weights, offsets]), (kernel.combine, [x, logits, places])):
        for i, tensor in enumerate(given):
            with pytest.raises(RuntimeError, match="several devices"):
                call(*given[:i], tensor.to("meta"), *given[i + 1 :])
    if DEVICES.device == "cpu":
        for wrong, text in (([1, 2, 5], "begin with 1"), ([0, 3, 2], "2 after 3"), ([0, 2, 6], "6, not 0 to 5")):
            with pytest.raises(RuntimeError, match=text):
                kernel.grouped_product(x, weights, torch.tensor(wrong, dtype=torch.int32))
        row = torch.tensor([5], dtype=torch.int32)
        with pytest.raises(RuntimeError, match="sources has 5, not 0 to 4"):
            kernel.grouped_product(x, weights, offsets.clamp(max=1), row)
        with pytest.raises(RuntimeError, match="places has 5, not 0 to 4"):
            kernel.combine(x, torch.ones(1, 1), row[None])


def test_ops_are_sound():
    torch.library.opcheck(ops.route.default, (make((5, 4), torch.float32), 2, True))
    given = given_product((2, 3), 16, 8, torch.float16, tokens=4)
    torch.library.opcheck(ops.grouped_product.default, tuple(given))
    places = torch.zeros(5, 2, dtype=torch.int32, device=DEVICES.device)
    torch.library.opcheck(ops.combine.default, (given[0], make((5, 2), torch.float32), places))


@large(elements=2**31 + 2**16, bytes_each=4)
def test_more_than_int32():
    rows, columns = 2**16 + 2, 2**15
    x = torch.ones(1, 8, dtype=torch.float16, device=DEVICES.device)
    weights = torch.ones(2, 8, columns, dtype=torch.float16, device=DEVICES.device)
    weights[1] = 2
    offsets = torch.tensor([0, 5, rows], dtype=torch.int32, device=DEVICES.device)
    sources = torch.zeros(rows, dtype=torch.int32, device=DEVICES.device)
    values = kernel.grouped_product(x, weights, offsets, sources)
    assert (values[:5] == 8).all() and (values[5:] == 16).all()
    places = torch.arange(rows, dtype=torch.int32, device=DEVICES.device)[:, None]
    assert torch.equal(kernel.combine(values, torch.ones(rows, 1, device=DEVICES.device), places), values)
