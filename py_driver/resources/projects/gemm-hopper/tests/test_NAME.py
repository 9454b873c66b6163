[% extends "projects/gemm-wmma/tests/test_NAME.py" %]
[% block sizes %]
# Many steps, and edges of tiles; what TMA cannot read, and enough of it.
SIZES += [(200, 520, 1104), (1023, 1021, 515)]
[% endblock %]
