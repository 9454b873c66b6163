[% extends "projects/gemm-wmma/tests/test_NAME.py" %]
[% block sizes %]
# Many steps, and edges of tiles; what TMA cannot read, so that it is copied.
SIZES += [(200, 520, 1104), (1023, 1021, 515)]
# Few rows, whose depth is shared by one to eight blocks, with and without copies.
SIZES += [(1, 264, 1000), (16, 520, 4104), (17, 1001, 515), (33, 300, 2048), (64, 17000, 72), (61, 131, 8191)]
[% endblock %]
