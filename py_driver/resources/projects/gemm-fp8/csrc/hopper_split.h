[# The kernel of gemm-hopper for some rows, which no product of float8 has yet. #]
