#include "curve.cuh"
#include "kernels.h"

namespace {

__global__ void inner(float* values, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) values[i] = curve(values[i], i);
}

__global__ void outer(float* values, int size) {
  if (threadIdx.x == 0) inner<<<(size + 127) / 128, 128>>>(values, size);
}

}  // namespace

cudaError_t nest(float* values, int size, cudaStream_t stream) {
  outer<<<1, 32, 0, stream>>>(values, size);
  return cudaGetLastError();
}
