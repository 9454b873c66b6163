#include "scale.h"

__global__ void scale_kernel(const float* input, float* output, long count, float factor) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < count) output[i] = input[i] * factor * SCALE;
}

void scale_cuda(const float* input, float* output, long count, float factor) {
  scale_kernel<<<(count + 255) / 256, 256>>>(input, output, count, factor);
}
