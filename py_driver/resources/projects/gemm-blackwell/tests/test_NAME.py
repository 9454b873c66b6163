[% extends "projects/gemm-wmma/tests/test_NAME.py" %]
[% block sizes %]
# Several steps and edges of tiles; what TMA can read and cannot store, if the second matrix is transposed.
SIZES += [(200, 520, 328), (300, 517, 128)]
if DEVICES.device == "cuda":
    # More tiles than blocks, more rows of them than a group has, many steps; what TMA cannot read. Minutes on a CPU.
    SIZES += [(5000, 4104, 64), (1023, 1021, 515)]
[% endblock %]
[% block further %]


def matrix_of_ones(rows, columns, dtype, moved):
    """A matrix that has a one in each row, and zeros."""
    ones = torch.zeros(rows, columns, dtype=dtype, device=DEVICES.device)
    at = torch.arange(rows, device=DEVICES.device)
    ones[at, (at * 7 + moved) % columns] = 1
    return ones


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_each_element_has_its_place(dtype, transposed):
    """Products that only move rows or columns: an element that is read or written elsewhere cannot be missed."""
    rows, columns, depth = 392, 776, 328
    values, picked = matrices(rows, columns, depth, dtype)
    for a, b in (
        (values, matrix_of_ones(columns, depth, dtype, 3).t()),
        (matrix_of_ones(rows, depth, dtype, 5), picked),
    ):
        right = b.t().contiguous().t() if transposed else b.contiguous()
        assert torch.equal(op(a, right).cpu(), (a.cpu().double() @ b.cpu().double()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_refuses_types(dtype):
    a = torch.zeros(8, 8, dtype=dtype, device=DEVICES.device)
    with pytest.raises(RuntimeError, match="no kernel for"):
        op(a, a)


def test_refuses_what_does_not_fit_together():
    a = torch.zeros(8, 16, dtype=torch.bfloat16, device=DEVICES.device)
    with pytest.raises(RuntimeError, match="a is"):
        op(a, a.t().half())
    with pytest.raises(RuntimeError, match="out has shape"):
        op(a, a.t(), a)
    with pytest.raises(RuntimeError, match="out is"):
        op(a, a.t(), a.new_empty(8, 8, dtype=torch.float32))
    with pytest.raises(RuntimeError, match="must be contiguous"):
        op(a, a.t(), a.new_empty(8, 16)[:, ::2])
[% endblock %]
