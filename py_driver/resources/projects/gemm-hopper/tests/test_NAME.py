[% extends "projects/gemm-wmma/tests/test_NAME.py" %]
[% block sizes %]
# Many steps, and edges of tiles; what TMA cannot read, so that it is copied.
SIZES += [(200, 520, 1104), (1023, 1021, 515)]
# Few rows, whose depth is shared by one to eight blocks, with and without copies.
SIZES += [(1, 264, 1000), (16, 520, 4104), (17, 1001, 515), (33, 300, 2048), (64, 17000, 72), (61, 131, 8191)]
# Some rows, whose tiles are 64 rows high at least, alone and with parts of the depth; also copied, and with odd rows.
SIZES += [(33, 1000, 136), (65, 1000, 656), (81, 1033, 137), (301, 131, 1021)]
[% endblock %]
[% block further %]


# More rows: tiles of each height, one or two below each other, whose depth one to four blocks share on an H200.
SOME_ROWS = [(81, 6152, 136), (81, 3080, 984), (65, 6152, 136), (65, 2056, 7448), (129, 6152, 136), (129, 3080, 984)]
SOME_ROWS += [(267, 3080, 136), (163, 2056, 984), (163, 6152, 136), (345, 1000, 4968), (332, 3080, 136)]
SOME_ROWS += [(202, 2056, 984), (579, 2056, 136), (410, 1000, 4968), (241, 5128, 136), (488, 1000, 4968)]
SOME_ROWS += [(293, 5128, 136), (410, 2056, 984), (267, 6152, 136), (579, 1000, 4968), (332, 6152, 136)]
SOME_ROWS += [(332, 3080, 984), (514, 1000, 7448), (397, 5128, 136), (579, 2056, 984), (397, 2056, 4968)]


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", SOME_ROWS, ids=str)
def test_some_rows(sizes, dtype, by_columns):
    a, b = matrices(*sizes, dtype)
    verify(op, reference, [a, b.t().contiguous().t() if by_columns else b], terms=sizes[2])
    assert torch.equal(op(a, b), op(a, b))


@pytest.mark.parametrize("sizes", [(81, 3080, 272), (293, 1032, 272), (410, 1000, 1040)], ids=str)
def test_some_rows_of_integers(sizes):
    a, b = matrices(*sizes, torch.int8)
    verify(op, reference, [a, b.t().contiguous().t()])
[% endblock %]
