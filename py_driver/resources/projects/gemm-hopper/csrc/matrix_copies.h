[% include "projects/gemm-wmma/csrc/matrix_copies.h" %]
