[% if gpu %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "debug.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kThreads = 256;
constexpr int kPackBytes = 16;
constexpr std::int64_t kMaxBlocks = 1 << 20;

// As many elements as one load takes.
template <typename T>
struct alignas(kPackBytes) Pack {
  static constexpr int size = kPackBytes / sizeof(T);
  T value[size];
};

template <typename T>
__device__ T silu(T value) {
  const float x = static_cast<float>(value);
  return T(x / (1.0f + expf(-x)));
}

// Dense tensors: whole packs first, then the elements that are left, by the first threads of the grid.
template <typename T>
__global__ void dense(T* __restrict__ out, const T* __restrict__ in, std::int64_t packs, std::int64_t count) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  DEVICE_ASSERT(packs * Pack<T>::size <= count);
  for (std::int64_t i = first; i < packs; i += stride) {
    Pack<T> pack = reinterpret_cast<const Pack<T>*>(in)[i];
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) {
      pack.value[k] = silu(pack.value[k]);
    }
    reinterpret_cast<Pack<T>*>(out)[i] = pack;
  }
  for (std::int64_t i = packs * Pack<T>::size + first; i < count; i += stride) {
    out[i] = silu(in[i]);
  }
}

// An input of any strides: the output is written in order, the input is read where it lies.
template <typename T>
__global__ void strided(T* __restrict__ out, const T* __restrict__ in, Layout layout, std::int64_t count) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = first; i < count; i += stride) {
    std::int64_t rest = i;
    std::int64_t place = 0;
    for (int dim = layout.dims - 1; dim >= 0; --dim) {
      place += rest % layout.sizes[dim] * layout.strides[dim];
      rest /= layout.sizes[dim];
    }
    out[i] = silu(in[place]);
  }
}

unsigned blocks_for(std::int64_t work) {
  return static_cast<unsigned>(std::min((work + kThreads - 1) / kThreads, kMaxBlocks));
}

template <typename T>
int run_as(void* out, const void* in, const Layout* layout, std::int64_t count, cudaStream_t stream) {
  auto* to = static_cast<T*>(out);
  const auto* from = static_cast<const T*>(in);
  if (layout) {
    strided<T><<<blocks_for(count), kThreads, 0, stream>>>(to, from, *layout, count);
  } else {
    const auto bits = reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in);
    const bool aligned = bits % kPackBytes == 0;
    const std::int64_t packs = aligned ? count / Pack<T>::size : 0;
    const std::int64_t work = std::max(packs, count - packs * Pack<T>::size);
    dense<T><<<blocks_for(work), kThreads, 0, stream>>>(to, from, packs, count);
  }
  return cudaGetLastError();
}

}  // namespace

int run(Type type, void* out, const void* in, const Layout* layout, std::int64_t count, void* stream) {
  if (count == 0) {
    return cudaSuccess;
  }
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float32:
      return run_as<float>(out, in, layout, count, on);
    case Type::float16:
      return run_as<__half>(out, in, layout, count, on);
    case Type::bfloat16:
      return run_as<__nv_bfloat16>(out, in, layout, count, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
