[% extends "projects/gemm-hopper/csrc/hopper_ptx.h" %]
