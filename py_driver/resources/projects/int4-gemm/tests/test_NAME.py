"""The kernel against torch in float64. Run it with `driver test`."""

import kernels
import pytest
import torch
from gradients import verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, pack_int4, unpack_int4, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

# Rows, columns, depth, group: one tile of rows, two and more; columns that no block has whole; groups of each kind.
SIZES = [(1, 64, 256, 128), (3, 7, 384, 128), (8, 16, 1024, 1024), (9, 48, 192, 64), (16, 33, 160, 32), (17, 5, 96, 96)]
SIZES += [(64, 128, 512, 128), (50, 50, 4096, 256), (1, 1, 32, 32), (0, 4, 32, 32), (4, 0, 32, 32)]
# More rows than one tile has, of all heights; steps whose halves have different scales; a depth that is split.
MANY = [(65, 128, 512, 128), (130, 50, 4096, 256), (300, 7, 96, 32), (1024, 257, 2048, 64), (200, 200, 1056, 96)]
MANY += [(513, 264, 160, 32), (192, 8, 8192, 8192)]
DTYPES = [torch.float16, torch.bfloat16]


def values_of(weight, scales):
    return (unpack_int4(weight).to(scales.dtype).unflatten(1, (scales.shape[1], -1)) * scales[..., None]).flatten(1)


def reference(x, weight, scales):
    return x @ values_of(weight, scales).T


def magnitude(x, weight, scales):
    return x.abs() @ values_of(weight, scales).abs().T


def tensors(rows, columns, depth, group, dtype):
    x = make((rows, depth), dtype, low=-1, high=1)
    weight = make((columns, depth // 2), torch.uint8, low=0, high=256, seed=1)
    return [x, weight, make((columns, depth // group), dtype, low=0, high=1, seed=2)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_product(sizes, dtype):
    given = tensors(*sizes, dtype)
    out = torch.empty(sizes[:2], dtype=dtype, device=DEVICES.device)
    verify(lambda out, *all: op(*all, out), reference, given, out=out, terms=sizes[2], magnitude=magnitude)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", MANY, ids=str)
def test_many_rows(sizes, dtype):
    # A GPU rounds the weights to the type of x before it multiplies, and torch may add parts up in that type.
    verify(op, reference, tensors(*sizes, dtype), accumulate=dtype, terms=4, magnitude=magnitude)


@pytest.mark.parametrize("rows", [5, 70])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, rows):
    given = [laid_out(one, layout) for one in tensors(rows, 48, 128, 32, torch.float16)]
    exact = {"terms": 128} if rows < 64 else {"accumulate": torch.float16, "terms": 4}
    verify(op, reference, given, **exact, magnitude=magnitude)


@pytest.mark.parametrize("group", [32, 128])
def test_quantize(group):
    wide = make((24, 256), torch.float16, low=-3, high=3)
    weight, scales = kernel.quantize(wide, group)
    assert torch.equal(pack_int4(unpack_int4(weight)), weight)
    step = scales.float().repeat_interleave(group, 1)
    # Half a step, and what the rounding of the scale does to the largest values.
    assert ((values_of(weight, scales.float()) - wide.float()).abs() <= 0.505 * step).all()
    assert kernel.quantize(torch.zeros_like(wide), group)[0].count_nonzero() == 0


def test_there_is_no_gradient():
    verify_no_gradient(op, tensors(5, 3, 64, 32, torch.float16))


def test_refuses():
    x, weight, scales = tensors(4, 8, 64, 32, torch.float16)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(x.float(), weight, scales.float())
    with pytest.raises(RuntimeError, match="two weights are in a byte"):
        op(x[:, :32], weight, scales)
    with pytest.raises(RuntimeError, match="a multiple of 32"):
        op(x, weight, scales.repeat(1, 2))
    given = [x, weight, scales]
    for i, tensor in enumerate(given):
        with pytest.raises(RuntimeError, match="several devices"):
            op(*given[:i], tensor.to("meta"), *given[i + 1 :])


def test_op_is_sound():
    given = tensors(5, 3, 64, 32, torch.float16)
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (given[0].new_empty(5, 3), *given))


@large(elements=2**31 + 2**16, bytes_each=3)
def test_more_than_int32():
    x = torch.ones(2**16, 32, dtype=torch.float16, device=DEVICES.device)
    weight = torch.full((2**15 + 1, 16), 0x11, dtype=torch.uint8, device=DEVICES.device)
    assert (op(x, weight, torch.ones_like(weight[:, :1], dtype=x.dtype)) == 32).all()


def test_many_rows_in_a_graph():
    if DEVICES.device == "cpu":
        pytest.skip("there are no graphs on a CPU")
    given = tensors(80, 200, 4096, 128, torch.float16)
    expected = op(*given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(*given)
    graph.replay()
    assert torch.equal(out, expected)
