#include "gemm.cuh"

cudaError_t gemm_small(bool wide, void* d, const void* a, const void* b, int m, int n, int k, cudaStream_t stream) {
  return wide ? multiply<64, 128, 32, 64>(d, a, b, m, n, k, stream) : multiply<64, 64, 32, 32>(d, a, b, m, n, k, stream);
}
