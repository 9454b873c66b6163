#pragma once
#include <cuda_runtime.h>

// `d = a @ b` for row-major float16 matrices of m x k and k x n whose sizes are multiples of eight, with two shapes of
// tiles each; the second one if `wide`.
cudaError_t gemm_large(bool wide, void* d, const void* a, const void* b, int m, int n, int k, cudaStream_t stream);
cudaError_t gemm_small(bool wide, void* d, const void* a, const void* b, int m, int n, int k, cudaStream_t stream);
