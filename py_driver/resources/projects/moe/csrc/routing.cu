[% if cuda %]
// Which experts compute a token, and the sum of what they computed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "[[ module ]].h"
#include "debug.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kLanes = 32;
constexpr int kTokens = 4;     // in a block, a warp for each
constexpr int kThreads = 256;  // of other kernels
constexpr int kPackBytes = 16;
constexpr std::int64_t kMaxBlocks = 1 << 20;
constexpr std::int64_t kShortPart = 512;  // pairs that a warp sorts, at least
constexpr std::int64_t kMostParts = 1024;

__device__ float logit(Type type, const void* logits, std::int64_t i) {
  switch (type) {
    case Type::float16:
      return static_cast<float>(static_cast<const __half*>(logits)[i]);
    case Type::bfloat16:
      return static_cast<float>(static_cast<const __nv_bfloat16*>(logits)[i]);
    default:
      return static_cast<const float*>(logits)[i];
  }
}

// A number for a logit and its expert: larger for a larger logit, and of equal ones for the first expert. A NaN is
// larger than all numbers, as torch.topk has it.
__device__ unsigned long long key_of(float value, std::int64_t expert) {
  const unsigned bits = __float_as_uint(value + 0.0f);  // 0 instead of -0
  // Below ~0u, so that each key is less than what the first round begins with.
  const unsigned order = isnan(value) ? ~1u : bits >> 31 ? ~bits : bits | 1u << 31;
  return static_cast<unsigned long long>(order) << 32 | ~static_cast<unsigned>(expert);
}

template <typename T>
__device__ T largest_of_warp(T value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(~0u, value, distance));
  }
  return value;
}

// Each round finds the largest key below that of the round before.
__global__ void __launch_bounds__(kTokens* kLanes) choose(Type type, Route tensors) {
  const int lane = threadIdx.x % kLanes;
  const std::int64_t token = blockIdx.x * static_cast<std::int64_t>(kTokens) + threadIdx.x / kLanes;
  if (token >= tensors.tokens) {
    return;
  }
  const std::int64_t first = token * tensors.count;
  std::int32_t* const experts = tensors.experts + token * tensors.k;
  float* const weights = tensors.weights + token * tensors.k;
  unsigned long long before = ~0ull;
  float largest = 0.0f;
  float chosen = 0.0f;
  for (std::int64_t round = 0; round < tensors.k; ++round) {
    unsigned long long best = 0;
    for (std::int64_t i = lane; i < tensors.count; i += kLanes) {
      const unsigned long long key = key_of(logit(type, tensors.logits, first + i), i);
      best = key < before ? max(best, key) : best;
    }
    best = largest_of_warp(best);
    before = best;
    const auto expert = static_cast<std::int32_t>(~static_cast<unsigned>(best));
    const float value = logit(type, tensors.logits, first + expert);
    largest = round == 0 ? value : largest;
    const float weight = expf(value - largest);
    chosen += weight;
    if (lane == round % kLanes) {
      experts[round] = expert;
      weights[round] = weight;
    }
  }
  float all = chosen;
  if (!tensors.normalize) {
    all = 0.0f;
    for (std::int64_t i = lane; i < tensors.count; i += kLanes) {
      all += expf(logit(type, tensors.logits, first + i) - largest);
    }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      all += __shfl_xor_sync(~0u, all, distance);
    }
  }
  // Each lane divides what it has written.
  for (std::int64_t round = lane; round < tensors.k; round += kLanes) {
    weights[round] /= all;
  }
}

// How many pairs a warp sorts: a multiple of its lanes.
__host__ __device__ std::int64_t part_of(std::int64_t pairs) {
  const std::int64_t even = (pairs + kMostParts - 1) / kMostParts;
  return even <= kShortPart ? kShortPart : (even + kLanes - 1) / kLanes * kLanes;
}

std::int64_t parts_of(std::int64_t pairs) { return (pairs + part_of(pairs) - 1) / part_of(pairs); }

// Calls act(pair, expert, lanes) for the pairs of a part, in their order: `lanes` are those whose pairs have the same
// expert.
template <class Act>
__device__ __forceinline__ void each_pair(const Route& tensors, Act act) {
  const std::int64_t pairs = tensors.tokens * tensors.k;
  const std::int64_t begin = blockIdx.x * part_of(pairs);
  const std::int64_t end = min(pairs, begin + part_of(pairs));
  for (std::int64_t i = begin + threadIdx.x; i - threadIdx.x < end; i += kLanes) {
    const unsigned active = __ballot_sync(~0u, i < end);
    if (i < end) {
      const std::int32_t expert = tensors.experts[i];
      act(i, expert, __match_any_sync(active, expert));
    }
    __syncwarp();
  }
}

__device__ bool is_first(unsigned lanes) { return threadIdx.x + 1 == __ffs(static_cast<int>(lanes)); }

// How many pairs of a part each expert has.
__global__ void __launch_bounds__(kLanes) count_pairs(Route tensors) {
  __shared__ std::int32_t counts[kMostExperts];
  for (std::int64_t i = threadIdx.x; i < tensors.count; i += kLanes) {
    counts[i] = 0;
  }
  __syncwarp();
  each_pair(tensors, [&](std::int64_t, std::int32_t expert, unsigned lanes) {
    if (is_first(lanes)) {
      counts[expert] += __popc(lanes);
    }
  });
  for (std::int64_t i = threadIdx.x; i < tensors.count; i += kLanes) {
    tensors.working[i * gridDim.x + blockIdx.x] = counts[i];
  }
}

// The sum of the values of all lanes up to this one.
__device__ std::int32_t up_to_lane(std::int32_t value) {
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const std::int32_t other = __shfl_up_sync(~0u, value, distance);
    value += static_cast<int>(threadIdx.x % kLanes) >= distance ? other : 0;
  }
  return value;
}

// A warp: replaces `count` values by the sums of those before each, and returns the sum of all.
__device__ std::int32_t sums_before(std::int32_t* values, std::int64_t count) {
  std::int32_t all = 0;
  for (std::int64_t first = 0; first < count; first += kLanes) {
    const std::int64_t i = first + threadIdx.x % kLanes;
    const std::int32_t own = i < count ? values[i] : 0;
    const std::int32_t sum = up_to_lane(own);
    if (i < count) {
      values[i] = all + sum - own;
    }
    all += __shfl_sync(~0u, sum, kLanes - 1);
  }
  return all;
}

// One block: where the rows of each expert begin, and there those of each part.
__global__ void __launch_bounds__(1024) add_counts(Route tensors, std::int64_t parts) {
  __shared__ std::int32_t counts[kMostExperts];
  const int warp = threadIdx.x / kLanes;
  for (std::int64_t expert = warp; expert < tensors.count; expert += blockDim.x / kLanes) {
    const std::int32_t all = sums_before(tensors.working + expert * parts, parts);
    if (threadIdx.x % kLanes == 0) {
      counts[expert] = all;
    }
  }
  __syncthreads();
  if (warp == 0) {
    const std::int32_t all = sums_before(counts, tensors.count);
    __syncwarp();
    for (std::int64_t i = threadIdx.x; i < tensors.count; i += kLanes) {
      tensors.offsets[i] = counts[i];
    }
    if (threadIdx.x == 0) {
      tensors.offsets[tensors.count] = all;
    }
  }
}

// The row of each pair: a stable sort by expert.
__global__ void __launch_bounds__(kLanes) place_pairs(Route tensors) {
  __shared__ std::int32_t next[kMostExperts];
  for (std::int64_t i = threadIdx.x; i < tensors.count; i += kLanes) {
    next[i] = tensors.offsets[i] + tensors.working[i * gridDim.x + blockIdx.x];
  }
  __syncwarp();
  each_pair(tensors, [&](std::int64_t pair, std::int32_t expert, unsigned lanes) {
    const std::int32_t begin = next[expert];
    const std::int32_t place = begin + __popc(lanes & ((1u << threadIdx.x) - 1));
    __syncwarp(lanes);
    if (is_first(lanes)) {
      next[expert] = begin + __popc(lanes);
    }
    tensors.places[pair] = place;
    tensors.sources[place] = static_cast<std::int32_t>(pair / tensors.k);
  });
}

// What a thread loads or stores at once: 16 bytes if all rows are aligned to that, else one element.
template <typename T, bool kWide>
struct alignas(kWide ? kPackBytes : sizeof(T)) Pack {
  static constexpr int size = kWide ? kPackBytes / static_cast<int>(sizeof(T)) : 1;
  T of[size];
};

template <typename T, bool kWide>
__global__ void __launch_bounds__(kThreads) add_rows(Sum tensors) {
  using Own = Pack<T, kWide>;
  const std::int64_t packs = tensors.columns / Own::size;
  const Own* const values = static_cast<const Own*>(tensors.values);
  for (std::int64_t token = blockIdx.x; token < tensors.tokens; token += gridDim.x) {
    const float* const weights = tensors.weights + token * tensors.k;
    const std::int32_t* const places = tensors.places + token * tensors.k;
    for (std::int64_t pack = threadIdx.x; pack < packs; pack += blockDim.x) {
      float sums[Own::size] = {};
#pragma unroll 4
      for (std::int64_t i = 0; i < tensors.k; ++i) {
        const Own own = values[places[i] * packs + pack];
        const float weight = weights[i];
#pragma unroll
        for (int k = 0; k < Own::size; ++k) {
          sums[k] += weight * static_cast<float>(own.of[k]);
        }
      }
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        own.of[k] = T(sums[k]);
      }
      static_cast<Own*>(tensors.out)[token * packs + pack] = own;
    }
  }
}

template <typename T>
int combine_as(const Sum& tensors, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(tensors.tokens, kMaxBlocks));
  const auto bits = reinterpret_cast<std::uintptr_t>(tensors.out) | reinterpret_cast<std::uintptr_t>(tensors.values);
  if ((bits | tensors.columns * sizeof(T)) % kPackBytes == 0) {
    add_rows<T, true><<<blocks, kThreads, 0, stream>>>(tensors);
  } else {
    add_rows<T, false><<<blocks, kThreads, 0, stream>>>(tensors);
  }
  return cudaGetLastError();
}

}  // namespace

int route(Type type, const Route& tensors, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto parts = static_cast<unsigned>(parts_of(tensors.tokens * tensors.k));
  if (parts > 0) {
    const auto blocks = static_cast<unsigned>((tensors.tokens + kTokens - 1) / kTokens);
    choose<<<blocks, kTokens * kLanes, 0, on>>>(type, tensors);
    count_pairs<<<parts, kLanes, 0, on>>>(tensors);
  }
  add_counts<<<1, 1024, 0, on>>>(tensors, parts);
  if (parts > 0) {
    place_pairs<<<parts, kLanes, 0, on>>>(tensors);
  }
  return cudaGetLastError();
}

int combine(Type type, const Sum& tensors, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return type == Type::float16 ? combine_as<__half>(tensors, on) : combine_as<__nv_bfloat16>(tensors, on);
}

std::int64_t working_size(std::int64_t tokens, std::int64_t count, std::int64_t k) {
  return parts_of(tokens * k) * count;
}

}  // namespace [[ module ]]_impl
[% endif %]
