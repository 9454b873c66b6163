#include "relu.h"

namespace {

__global__ void relu_kernel(const float* in, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    out[i] = in[i] > 0.0f ? in[i] : 0.0f;
  }
}

}  // namespace

cudaError_t relu(const float* in, float* out, int count, cudaStream_t stream) {
  const int threads = 256;
  relu_kernel<<<(count + threads - 1) / threads, threads, 0, stream>>>(in, out, count);
  return cudaGetLastError();
}
