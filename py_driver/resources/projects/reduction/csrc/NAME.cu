[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "debug.h"
#include "tuned.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kLanes = 32;
constexpr int kMostWarps = 32;
constexpr int kLargeBlock = 1024;  // for a long row
constexpr std::int64_t kMaxBlocks = 1 << 20;

// What a thread loads or stores at once: kWords words of 4 bytes, or one element for kWords = 0.
template <typename T, int kWords>
struct alignas(4 * kWords) Pack {
  static constexpr int size = 4 * kWords / static_cast<int>(sizeof(T));
  T of[size];
};

template <typename T>
struct Pack<T, 0> {
  static constexpr int size = 1;
  T of[size];
};

template <typename Join>
__device__ float over_warp(float value, Join join) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// The value of all threads of a block, in each of them.
template <typename Join>
__device__ float over_block(float value, float nothing, Join join) {
  __shared__ float of_warp[kMostWarps];
  value = over_warp(value, join);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) {
    of_warp[threadIdx.x / kLanes] = value;
  }
  __syncthreads();
  const int lane = threadIdx.x % kLanes;
  return over_warp(lane < static_cast<int>(blockDim.x) / kLanes ? of_warp[lane] : nothing, join);
}

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// A row in the registers of a warp, kEach packs of it in each thread.
template <typename T, int kWords, int kThreads, int kEach>
__global__ void __launch_bounds__(kThreads)
    by_warp(T* __restrict__ out, const T* __restrict__ in, std::int64_t rows, std::int64_t columns) {
  using Own = Pack<T, kWords>;
  constexpr int kWarps = kThreads / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int packs = static_cast<int>(columns / Own::size);
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(kWarps);
  for (std::int64_t row = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / kLanes; row < rows;
       row += step) {
    const Own* from = reinterpret_cast<const Own*>(in + row * columns);
    Own* to = reinterpret_cast<Own*>(out + row * columns);
    float kept[kEach][Own::size];
    float largest = -FLT_MAX;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int pack = lane + i * kLanes;
      Own own;
      if (pack < packs) {
        own = from[pack];
      }
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        kept[i][k] = pack < packs ? static_cast<float>(own.of[k]) : -INFINITY;
        largest = fmaxf(largest, kept[i][k]);
      }
    }
    largest = over_warp(largest, Larger());
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        kept[i][k] = expf(kept[i][k] - largest);
        sum += kept[i][k];
      }
    }
    const float scale = 1.0f / over_warp(sum, Plus());
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int pack = lane + i * kLanes;
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        own.of[k] = T(kept[i][k] * scale);
      }
      if (pack < packs) {
        to[pack] = own;
      }
    }
  }
}

// A row in shared memory. Each thread reads what it wrote there itself, so none waits for another but in the sums.
template <typename T, int kWords, int kThreads>
__global__ void __launch_bounds__(kThreads)
    in_shared(T* __restrict__ out, const T* __restrict__ in, std::int64_t rows, std::int64_t columns) {
  using Own = Pack<T, kWords>;
  __shared__ float kept[kColumns[kShared]];
  DEVICE_ASSERT(columns <= kColumns[kShared]);
  const int packs = static_cast<int>(columns / Own::size);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Own* from = reinterpret_cast<const Own*>(in + row * columns);
    Own* to = reinterpret_cast<Own*>(out + row * columns);
    float largest = -FLT_MAX;
#pragma unroll 4
    for (int pack = threadIdx.x; pack < packs; pack += kThreads) {
      const Own own = from[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float x = static_cast<float>(own.of[k]);
        kept[k * packs + pack] = x;
        largest = fmaxf(largest, x);
      }
    }
    largest = over_block(largest, -FLT_MAX, Larger());
    float sum = 0.0f;
    for (int pack = threadIdx.x; pack < packs; pack += kThreads) {
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float x = expf(kept[k * packs + pack] - largest);
        kept[k * packs + pack] = x;
        sum += x;
      }
    }
    const float scale = 1.0f / over_block(sum, 0.0f, Plus());
    for (int pack = threadIdx.x; pack < packs; pack += kThreads) {
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        own.of[k] = T(kept[k * packs + pack] * scale);
      }
      to[pack] = own;
    }
  }
}

// A row of any length: once for its largest value and its sum, once for the output.
template <typename T, int kWords, int kThreads>
__global__ void __launch_bounds__(kThreads)
    by_block(T* __restrict__ out, const T* __restrict__ in, std::int64_t rows, std::int64_t columns) {
  using Own = Pack<T, kWords>;
  const std::int64_t packs = columns / Own::size;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Own* from = reinterpret_cast<const Own*>(in + row * columns);
    Own* to = reinterpret_cast<Own*>(out + row * columns);
    float largest = -FLT_MAX;
    float sum = 0.0f;
#pragma unroll 4
    for (std::int64_t pack = threadIdx.x; pack < packs; pack += kThreads) {
      const Own own = from[pack];
      float both = largest;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        both = fmaxf(both, static_cast<float>(own.of[k]));
      }
      sum *= expf(largest - both);
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        sum += expf(static_cast<float>(own.of[k]) - both);
      }
      largest = both;
    }
    const float all = over_block(largest, -FLT_MAX, Larger());
    const float scale = 1.0f / over_block(sum * expf(largest - all), 0.0f, Plus());
#pragma unroll 4
    for (std::int64_t pack = threadIdx.x; pack < packs; pack += kThreads) {
      Own own = from[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        own.of[k] = T(expf(static_cast<float>(own.of[k]) - all) * scale);
      }
      to[pack] = own;
    }
  }
}

template <typename T, int kWords, int kVariant, int kThreads>
int launch(T* out, const T* in, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if constexpr (kVariant == kByLength) {
    if (columns <= kColumns[kWarp]) {
      return launch<T, kWords, kWarp, kThreads>(out, in, rows, columns, stream);
    }
    if (columns <= kColumns[kShared]) {
      return launch<T, kWords, kShared, kThreads>(out, in, rows, columns, stream);
    }
    return launch<T, kWords, kBlock, kLargeBlock>(out, in, rows, columns, stream);
  } else if constexpr (kVariant == kWarp) {
    constexpr int kSize = Pack<T, kWords>::size;
    const auto blocks = static_cast<unsigned>(std::min((rows * kLanes + kThreads - 1) / kThreads, kMaxBlocks));
    const auto function = columns <= 4 * kLanes    ? by_warp<T, kWords, kThreads, (4 + kSize - 1) / kSize>
                          : columns <= 16 * kLanes ? by_warp<T, kWords, kThreads, 16 / kSize>
                                                   : by_warp<T, kWords, kThreads, 32 / kSize>;
    function<<<blocks, kThreads, 0, stream>>>(out, in, rows, columns);
  } else {
    const auto blocks = static_cast<unsigned>(std::min(rows, kMaxBlocks));
    if constexpr (kVariant == kShared) {
      in_shared<T, kWords, kThreads><<<blocks, kThreads, 0, stream>>>(out, in, rows, columns);
    } else {
      by_block<T, kWords, kThreads><<<blocks, kThreads, 0, stream>>>(out, in, rows, columns);
    }
  }
  return cudaGetLastError();
}

// Loads and stores of the width that the configuration asks for, if the rows are aligned to it; else one by one.
template <typename T, class Config>
int run_as(void* out, const void* in, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  using Wide = Pack<T, Config::WORDS>;
  auto* to = static_cast<T*>(out);
  const auto* from = static_cast<const T*>(in);
  const auto address = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  return address % sizeof(Wide) == 0 && columns % Wide::size == 0
             ? launch<T, Config::WORDS, Config::VARIANT, Config::THREADS>(to, from, rows, columns, stream)
             : launch<T, 0, Config::VARIANT, Config::THREADS>(to, from, rows, columns, stream);
}

int capability() {
  int device = 0;
  int major = 0;
  int minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return 10 * major + minor;
}

}  // namespace

int run(Type type, void* out, const void* in, std::int64_t rows, std::int64_t columns, int variant, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto call = [&](auto config) -> int {
    using Config = decltype(config);
    switch (type) {
      case Type::float32:
        return run_as<float, Config>(out, in, rows, columns, on);
      case Type::float16:
        return run_as<__half, Config>(out, in, rows, columns, on);
      case Type::bfloat16:
        return run_as<__nv_bfloat16, Config>(out, in, rows, columns, on);
    }
    return cudaErrorInvalidValue;
  };
  switch (variant) {
    case kWarp:
      return call(softmax_tuned::Config<kWarp, 256, 4>());
    case kShared:
      return call(softmax_tuned::Config<kShared, 256, 4>());
    case kBlock:
      return call(softmax_tuned::Config<kBlock, kLargeBlock, 4>());
    default:
      return softmax_tuned::choose<int>(capability(), rows, columns, call);
  }
}

}  // namespace [[ module ]]_impl
[% endif %]
