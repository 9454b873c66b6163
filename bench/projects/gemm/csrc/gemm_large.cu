#include "gemm.cuh"

cudaError_t gemm_large(bool wide, void* d, const void* a, const void* b, int m, int n, int k, cudaStream_t stream) {
  return wide ? multiply<128, 256, 64, 64>(d, a, b, m, n, k, stream)
              : multiply<128, 128, 64, 64>(d, a, b, m, n, k, stream);
}
