#pragma once

#include <cuda_runtime.h>

// `d = a @ b` for row-major float16 matrices of M x K and K x N; nullptr, or what went wrong.
const char* gemm_f16(void* d, const void* a, const void* b, int m, int n, int k, cudaStream_t stream);

// 100 * CUTLASS_MAJOR + CUTLASS_MINOR
int gemm_cutlass_version();
