#include "scale.h"

static __global__ void kernel(float *out, const float *in, float factor, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = factor * in[i];
}

void scale(float *out, const float *in, float factor, std::int64_t count, void *stream) {
  if (count == 0) return;
  const unsigned blocks = static_cast<unsigned>((count + 255) / 256);
  kernel<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(out, in, factor, count);
}
