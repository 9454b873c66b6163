#include "relu.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

namespace relu_cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPackBytes = 16;
constexpr std::int64_t kMaxBlocks = 1 << 20;

template <typename T>
struct alignas(kPackBytes) Pack {
  static constexpr int size = kPackBytes / sizeof(T);
  T value[size];
};

template <typename T>
__device__ T relu(T x) {
  return static_cast<float>(x) <= 0.0f ? T(0.0f) : x;
}

// Whole packs of 16 bytes first, then the elements that are left, by the first threads of the grid.
template <typename T>
__global__ void relu_kernel(T* __restrict__ out, const T* __restrict__ in, std::int64_t packs, std::int64_t count) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  const auto* in_packs = reinterpret_cast<const Pack<T>*>(in);
  auto* out_packs = reinterpret_cast<Pack<T>*>(out);
  for (std::int64_t i = first; i < packs; i += stride) {
    Pack<T> pack = in_packs[i];
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) {
      pack.value[k] = relu(pack.value[k]);
    }
    out_packs[i] = pack;
  }
  for (std::int64_t i = packs * Pack<T>::size + first; i < count; i += stride) {
    out[i] = relu(in[i]);
  }
}

template <typename T>
cudaError_t launch_as(void* out, const void* in, std::int64_t count, cudaStream_t stream) {
  const bool aligned = (reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in)) % kPackBytes == 0;
  const std::int64_t packs = aligned ? count / Pack<T>::size : 0;
  const std::int64_t work = std::max(packs, count - packs * Pack<T>::size);
  const std::int64_t blocks = std::min((work + kThreads - 1) / kThreads, kMaxBlocks);
  relu_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<T*>(out), static_cast<const T*>(in), packs, count);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(Format format, void* out, const void* in, std::int64_t count, cudaStream_t stream) {
  if (count == 0) {
    return cudaSuccess;
  }
  switch (format) {
    case Format::float32:
      return launch_as<float>(out, in, count, stream);
    case Format::float16:
      return launch_as<__half>(out, in, count, stream);
    case Format::bfloat16:
      return launch_as<__nv_bfloat16>(out, in, count, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace relu_cuda
