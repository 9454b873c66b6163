[% extends "projects/gemm-wmma/tests/test_NAME.py" %]
[% block sizes %]
# Many steps, and edges of tiles; more tiles than blocks, and more rows of them than a group has; the widest tiles.
SIZES += [(200, 520, 1104), (2304, 2304, 144), (4000, 2000, 136)]
# What TMA cannot read, so that it is copied; a deep one whose depth is split, and one that is both.
SIZES += [(1023, 1021, 515), (128, 136, 8192), (77, 131, 4099)]
# Few rows, whose depth is shared by one to eight blocks, with and without copies.
SIZES += [(1, 264, 1000), (16, 520, 4104), (17, 1001, 515), (33, 300, 2048), (64, 17000, 72), (61, 131, 8191)]
# Some rows: tiles of each height, alone and below each other, whose depth one to three blocks share, and edges of them.
SIZES += [(65, 4096, 1032), (96, 4104, 520), (112, 520, 4104), (160, 4096, 1000), (208, 1000, 1032), (300, 4096, 1000)]
SIZES += [(384, 4096, 264), (400, 4104, 264), (300, 5120, 200), (129, 8192, 136), (513, 1000, 264), (301, 131, 1021)]
[% endblock %]
[% block further %]


@pytest.mark.parametrize("rows", [5, 64, 128, 300])
@pytest.mark.parametrize("depth", [8192, 8191])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_parts_of_the_depth_are_added_in_the_same_order(dtype, depth, rows):
    a, b = matrices(rows, 136, depth, dtype)
    assert all(torch.equal(op(a, b), op(a, b)) for _ in range(20))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8], ids=str)
@pytest.mark.parametrize("first", [1, 3, 8])
@pytest.mark.parametrize("rows", [30, 256])
def test_any_address(rows, dtype, first):
    a, b = matrices(rows, 264, 136, dtype)
    moved = [torch.empty(first + matrix.numel(), dtype=dtype, device=DEVICES.device)[first:] for matrix in (a, b)]
    left = moved[0].view(rows, 136).copy_(a)
    right = moved[1].view(264, 136).copy_(b.t()).t()
    verify(op, reference, [left, right], terms=136 if dtype.is_floating_point else 0)
[% endblock %]
