#include "scale_cuda.h"

#ifdef TORCH_TARGET_VERSION
#error "nothing of torch is for a section that does not depend on it"
#endif

namespace {

__global__ void multiply(float* output, const float* input, int64_t size, float factor) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
    output[i] = input[i] * factor;
  }
}

}  // namespace

cudaError_t scale_cuda(float* output, const float* input, int64_t size, float factor, cudaStream_t stream) {
  if (size > 0) {
    const int64_t blocks = (size + 255) / 256;
    multiply<<<blocks < 4096 ? blocks : 4096, 256, 0, stream>>>(output, input, size, factor);
  }
  return cudaGetLastError();
}
