[% if cuda %]
#include "[[ module ]].h"

#include <cuda_runtime.h>

#include <algorithm>

#include "debug.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;

// Whole vectors first, then the elements that are left, by the first threads of the grid.
__global__ void twice(float* __restrict__ out, const float* __restrict__ in, std::int64_t vectors, std::int64_t count) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = first; i < vectors; i += stride) {
    const float4 x = reinterpret_cast<const float4*>(in)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(2.0f * x.x, 2.0f * x.y, 2.0f * x.z, 2.0f * x.w);
  }
  for (std::int64_t i = vectors * 4 + first; i < count; i += stride) {
    out[i] = 2.0f * in[i];
  }
}

}  // namespace

int run(float* out, const float* in, std::int64_t count, void* stream) {
  if (count == 0) {
    return cudaSuccess;
  }
  const auto bits = reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in);
  const std::int64_t vectors = bits % sizeof(float4) == 0 ? count / 4 : 0;
  const std::int64_t work = std::max(vectors, count - vectors * 4);
  const auto blocks = static_cast<unsigned>(std::min((work + kThreads - 1) / kThreads, kMaxBlocks));
  twice<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(out, in, vectors, count);
  return cudaGetLastError();
}

}  // namespace [[ module ]]_impl
[% endif %]
