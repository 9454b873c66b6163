[% extends "projects/gemm-wmma/tests/test_NAME.py" %]
[% block sizes %]
# What TMA can read: many steps, and edges of tiles; more tiles than blocks, and more rows of them than a group has.
SIZES += [(200, 520, 1104), (2304, 2304, 144)]
[% endblock %]
