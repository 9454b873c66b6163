[% include "projects/gemm-wmma/csrc/matrices.h" %]
