"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

# Rows, columns, depth: multiples of the tiles and not, what TMA cannot read, a depth that is split, and empty ones.
SIZES = [(64, 64, 64), (127, 61, 511), (1, 256, 32), (256, 1, 33), (1, 1, 1), (3, 5, 1000), (200, 520, 1104)]
SIZES += [(77, 131, 4099), (128, 136, 8192), (300, 1000, 256), (0, 4, 8), (4, 0, 8), (5, 6, 0)]
# Few rows, whose depth is shared by one to eight blocks; one has more steps than a block keeps scales of.
SIZES += [(16, 1000, 2176), (33, 1001, 525), (64, 300, 2304), (17, 131, 20000), (64, 17000, 80)]
LARGE = [(2304, 1300, 144), (1023, 1021, 515)]
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
KINDS = ["one", "rows", "blocks"]

ON_HOPPER = DEVICES.device == "cuda" and torch.cuda.get_device_capability()[0] == 9

# Tensor cores of Hopper cut each of 32 products, and the sum that they are added to, at 13 bits below the largest of
# them. That is 33 / 8 units of float16 at most for each 32 products: those of a block, or of all of the depth.
UNITS = 33 / 8


def float8(shape, seed=0):
    return make(shape, torch.float32, low=-4, high=4, seed=seed).to(torch.float8_e4m3fn)


def blocks_of(size):
    return -(-size // 128)


def scales_for(rows, columns, depth, kind, seed=2):
    """Scales that no power of two hides: all differ."""
    a = {"one": (1,), "rows": (rows, 1), "blocks": (rows, blocks_of(depth))}[kind]
    b = {"one": (1,), "rows": (1, columns), "blocks": (blocks_of(depth), blocks_of(columns))}[kind]
    return [make(shape, torch.float32, low=0.5, high=2, seed=seed + i) for i, shape in enumerate((a, b))]


def tensors(rows, columns, depth, kind):
    return [float8((rows, depth)), float8((columns, depth), seed=1).t(), *scales_for(rows, columns, depth, kind)]


def scaled(values, scales):
    """The values of a matrix times its scales, of whatever kind."""
    if scales.numel() == 1:
        return values * scales.reshape(())
    for axis in (0, 1):
        if scales.shape[axis] != values.shape[axis] and scales.shape[axis] != 1:
            scales = scales.repeat_interleave(128, axis).narrow(axis, 0, values.shape[axis])
    return values * scales


def reference(a, b, a_scales, b_scales):
    return scaled(a, a_scales) @ scaled(b, b_scales)


def check(given, dtype=torch.bfloat16, fast=False):
    depth = given[0].shape[1]
    bound = {"terms": depth + 2}
    if ON_HOPPER:
        bound = {"accumulate": torch.float16, "terms": UNITS * (depth / 32 if fast else 4)}
    verify(lambda *all: op(*all, dtype, fast), reference, given, **bound)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_product(sizes, kind):
    check(tensors(*sizes, kind))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [(127, 61, 511), (200, 520, 1104), (77, 131, 4099)], ids=str)
def test_outputs(sizes, dtype, fast):
    check(tensors(*sizes, "rows"), dtype, fast)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", LARGE, ids=str)
def test_large(sizes, kind):
    check(tensors(*sizes, kind))


@pytest.mark.parametrize("kind", ["one", "rows"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_fast(sizes, kind):
    check(tensors(*sizes, kind), fast=True)


@pytest.mark.parametrize("kinds", [("one", "rows"), ("rows", "one")], ids=str)
def test_kinds_can_differ(kinds):
    sizes = (130, 70, 300)
    a_scales, b_scales = (scales_for(*sizes, kind)[i] for i, kind in enumerate(kinds))
    check([*tensors(*sizes, "one")[:2], a_scales, b_scales])


def test_sums_are_exact():
    """After 128 large products tensor cores lose all small ones, unless each block has a sum of its own."""
    a = torch.ones(130, 4096, device=DEVICES.device)
    a[:, :128] = 256
    b = torch.full((70, 4096), 2.0**-6, device=DEVICES.device)
    b[:, :128] = 1
    one = torch.ones(1, device=DEVICES.device)
    out = op(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t(), one, one, torch.float32)
    assert (out == 128 * 256 + (4096 - 128) * 2.0**-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_each_scale_is_used_once(kind):
    """A product of unit matrices has nothing but products of two scales."""
    rows, columns, depth = 384, 392, 400
    a_scales, b_scales = scales_for(rows, columns, depth, kind)
    a, b = (torch.eye(size, depth, device=DEVICES.device).to(torch.float8_e4m3fn) for size in (rows, columns))
    expected = scaled(a.float(), a_scales) @ scaled(b.float().t(), b_scales)
    torch.testing.assert_close(op(a, b.t(), a_scales, b_scales, torch.float32), expected, rtol=3e-7, atol=0)


def test_every_value():
    """All 256 bytes, of which two are NaN."""
    a = torch.arange(256, dtype=torch.uint8, device=DEVICES.device).view(torch.float8_e4m3fn)[:, None]
    one = torch.ones(1, device=DEVICES.device)
    out = op(a, one[:, None].to(a.dtype), one, one, torch.float32)
    assert torch.equal(out.nan_to_num(nan=1e3), a.float().nan_to_num(nan=1e3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, kind):
    check([laid_out(one, layout) for one in tensors(62, 48, 400, kind)])


@pytest.mark.parametrize("block", [None, (1, 128), (128, 128), (1, 300)], ids=str)
def test_quantize(block):
    wide = make((200, 300), torch.float32, low=-3, high=3)
    values, scales = kernel.quantize(wide, block)
    high, across = block or wide.shape
    assert scales.shape == (-(-200 // high), -(-300 // across))
    steps = scales.repeat_interleave(high, 0)[:200].repeat_interleave(across, 1)[:, :300]
    # Half a unit in the last place of three bits, or of the smallest number.
    bound = torch.maximum(wide.abs() * 2**-4, steps * 2**-10) * 1.001
    assert ((values.float() * steps - wide).abs() <= bound).all()
    assert kernel.quantize(torch.zeros_like(wide), block)[0].float().count_nonzero() == 0


def test_compiled():
    given = tensors(33, 48, 200, "blocks")
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*given), op(*given))


def test_there_is_no_gradient():
    verify_no_gradient(lambda scale: op(*tensors(5, 3, 64, "one")[:3], scale), [torch.ones(1, device=DEVICES.device)])


def test_refuses():
    a, b, a_scales, b_scales = tensors(130, 140, 256, "blocks")
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(a.half(), b, a_scales, b_scales)
    with pytest.raises(RuntimeError, match="an output of"):
        op(a, b, a_scales, b_scales, torch.float64)
    with pytest.raises(RuntimeError, match="not float32"):
        op(a, b, a_scales.half(), b_scales)
    with pytest.raises(RuntimeError, match="cannot be fast"):
        op(a, b, a_scales, b_scales, fast=True)
    with pytest.raises(RuntimeError, match="or for blocks of 128"):
        op(a, b, a_scales, b_scales[:1])
    with pytest.raises(RuntimeError, match="has shape"):
        op(a[:, :128], b, a_scales, b_scales)


def test_op_is_sound():
    # The fourth of opcheck's tests, that of schemas, multiplies the inputs by a number, which float8 cannot.
    tests = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    given = (*tensors(5, 3, 64, "one"), torch.float16, False)
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, given, test_utils=tests)


@large(elements=2**31 + 2**16, bytes_each=3)
def test_more_than_int32():
    a = torch.ones(2**15 + 1, 16, device=DEVICES.device).to(torch.float8_e4m3fn)
    b = torch.ones(2**16, 16, device=DEVICES.device).to(torch.float8_e4m3fn)
    one = torch.ones(1, device=DEVICES.device)
    assert (op(a, b.t(), one, one) == 16).all()


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_graph(kind):
    if DEVICES.device == "cpu":
        pytest.skip("there are no graphs on a CPU")
    given = tensors(77, 131, 4099, kind)
    expected = op(*given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(*given)
    graph.replay()
    assert torch.equal(out, expected)
