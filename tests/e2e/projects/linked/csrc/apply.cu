#include "curve.cuh"
#include "kernels.h"

static __device__ int own;

__global__ void apply_kernel(const float* in, float* out, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  own = size;
  out[i] = curve(in[i], i) + table[0];
}

cudaError_t apply(const float* in, float* out, int size, cudaStream_t stream) {
  apply_kernel<<<(size + 127) / 128, 128, 0, stream>>>(in, out, size);
  return cudaGetLastError();
}
