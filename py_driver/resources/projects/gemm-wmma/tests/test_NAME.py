"""The kernel against torch in float64. Run it with `driver test`."""

import os
import subprocess
import sys

import kernels
import pytest
import torch
from gradients import verify_gradient, verify_no_gradient
from verify import DEVICES, LAYOUTS, laid_out, large, make, verify

kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=DEVICES.backend)
op = kernel.[[ module ]]

# Rows, columns, depth: square and rectangular, multiples of the tiles and not, and empty ones.
SIZES = [(64, 64, 64), (127, 61, 511), (1, 256, 32), (256, 1, 33), (1, 1, 1), (3, 5, 1000)]
SIZES += [(0, 4, 8), (4, 0, 8), (5, 6, 0), (1025, 2049, 0)]
# Enough for large tiles on a GPU: rows of whole vectors, and of others.
SIZES += [(1152, 2304, 72), (1025, 2049, 43)]
# Rows that are copied first; a deep one whose depth is split, and one that is both.
SIZES += [(255, 253, 515), (128, 136, 8192), (77, 131, 4099)]
if DEVICES.device != "cpu":
    # Tiles of every size, also with parts of the depth.
    SIZES += [(4000, 2000, 136), (2304, 2304, 144), (512, 512, 8192)]
[% block sizes %]
[% endblock %]
FLOATS = [torch.float16, torch.bfloat16]


def reference(a, b):
    """torch has no product of integers for GPUs."""
    return a @ b if a.dtype.is_floating_point else (a.cpu() @ b.cpu()).to(a.device)


def matrices(rows, columns, depth, dtype):
    limits = {"low": -1, "high": 1} if dtype.is_floating_point else {"low": -128, "high": 128}
    return make((rows, depth), dtype, **limits), make((depth, columns), dtype, seed=1, **limits)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_floats(sizes, dtype):
    a, b = matrices(*sizes, dtype)
    out = torch.empty(sizes[:2], dtype=dtype, device=DEVICES.device)
    verify(lambda out, a, b: op(a, b, out), reference, [a, b], out=out, terms=sizes[2])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_integers(sizes):
    a, b = matrices(*sizes, torch.int8)
    out = torch.empty(sizes[:2], dtype=torch.int32, device=DEVICES.device)
    verify(lambda out, a, b: op(a, b, out), reference, [a, b], out=out)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_narrow_sums(sizes):
    a, b = matrices(*sizes, torch.float16)
    out = torch.empty(sizes[:2], dtype=torch.float16, device=DEVICES.device)
    narrow = {"terms": sizes[2], "accumulate": torch.float16}
    verify(lambda out, a, b: op(a, b, out, narrow_sums=True), reference, [a, b], out=out, **narrow)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_transposed_weights(sizes, dtype):
    a, b = matrices(*sizes, dtype)
    verify(op, reference, [a, b.t().contiguous().t()], terms=sizes[2] if dtype.is_floating_point else 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    a, b = matrices(62, 48, 100, torch.float16)
    verify(op, reference, [laid_out(a, layout), laid_out(b, layout)], terms=100)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients(dtype, layout):
    a, b = matrices(62, 48, 100, dtype)
    verify_gradient(op, reference, [laid_out(a, layout), laid_out(b, layout)], terms=100)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients_of_sizes(sizes):
    verify_gradient(op, reference, matrices(*sizes, torch.float16), terms=max(sizes))


def test_compiled_gradients():
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    verify_gradient(compiled, reference, matrices(33, 48, 17, torch.float16), terms=48)


def test_a_given_output_has_no_gradient():
    a, b = matrices(5, 3, 7, torch.float16)
    verify_no_gradient(op, [a, b, a.new_empty(5, 3)])


def test_refuses():
    a = torch.zeros(4, 4, device=DEVICES.device)
    for other in (a.half().to("meta"), a.half().to("meta").requires_grad_()):
        with pytest.raises(RuntimeError, match="on several devices"):
            op(a.half(), other)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(a, a)
    with pytest.raises(RuntimeError, match="are for float16"):
        op(a.bfloat16(), a.bfloat16(), narrow_sums=True)
    with pytest.raises(RuntimeError, match="has shape"):
        op(a.half(), torch.zeros(3, 4, dtype=torch.float16, device=DEVICES.device))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_out_that_overlaps(dtype):
    a, b = matrices(8, 8, 8, dtype)
    for out in (a, b):
        with pytest.raises(RuntimeError, match="single memory location"):
            op(a, b, out)


@pytest.mark.skipif(DEVICES.device != "cpu", reason="a GPU has other instructions")
def test_integers_on_older_cpus():
    program = """
import kernels, torch
kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend="cpu")
a, b = torch.full((64, 2048), -128, dtype=torch.int8), torch.full((2048, 64), 127, dtype=torch.int8)
assert (kernel.[[ module ]](a, b) == -128 * 127 * 2048).all()
"""
    for instructions in ("SSE41", "AVX2", "AVX512_CORE"):
        environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions}
        subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_op_is_sound():
    a, b = matrices(5, 3, 7, torch.float16)
    torch.library.opcheck(kernel._ops.ops.[[ module ]]_out.default, (a.new_empty(5, 3), a, b, False))
    torch.library.opcheck(kernel._ops.ops.[[ module ]].default, (a.requires_grad_(), b.requires_grad_(), False))


@large(elements=2**31 + 2**16, bytes_each=4)
def test_more_than_int32():
    rows = 2**15 + 1
    a = torch.ones(rows, 16, dtype=torch.float16, device=DEVICES.device)
    b = torch.ones(16, 2**16, dtype=torch.float16, device=DEVICES.device)
    assert (op(a, b) == 16).all()


@pytest.mark.parametrize("rows", [5, 64, 128, 300])
@pytest.mark.parametrize("depth", [8192, 8191])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_parts_of_the_depth_are_added_in_the_same_order(dtype, depth, rows):
    a, b = matrices(rows, 136, depth, dtype)
    assert all(torch.equal(op(a, b), op(a, b)) for _ in range(2 if DEVICES.device == "cpu" else 20))


def surrounded(matrix, first):
    """The same matrix `first` elements after an aligned address, between elements that would spoil a product."""
    spoils = float("nan") if matrix.dtype.is_floating_point else 99
    memory = matrix.new_full((first + matrix.numel() + 16,), spoils)
    return memory[first:-16].view(matrix.shape).copy_(matrix)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8], ids=str)
@pytest.mark.parametrize("first", [1, 3, 8])
@pytest.mark.parametrize("sizes", [(30, 264, 136), (256, 264, 136), (33, 61, 127)], ids=str)
def test_any_address(sizes, dtype, first):
    a, b = matrices(*sizes, dtype)
    for right in (surrounded(b, first), surrounded(b.t(), first).t()):
        verify(op, reference, [surrounded(a, first), right], terms=sizes[2] if dtype.is_floating_point else 0)


@large(elements=2**31 + 2**15, bytes_each=2)
def test_inputs_of_more_than_int32():
    many = torch.ones(2**15, 2**16 + 1, dtype=torch.int8, device=DEVICES.device)
    few = torch.ones(2**16 + 1, 5, dtype=torch.int8, device=DEVICES.device)
    assert (op(many, few) == 2**16 + 1).all()
    assert (op(few.t().contiguous(), many.t()) == 2**16 + 1).all()
[% block further %]
[% endblock %]
