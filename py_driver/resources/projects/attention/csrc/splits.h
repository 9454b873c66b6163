[% if cuda %]
// The keys of few queries are split between blocks: how what those compute is kept, and added up.
#pragma once

#include "[[ module ]].h"
#include "warp.h"

namespace [[ module ]]_impl {
[% raw %]

constexpr int kMostSplits = 256;

inline __device__ float base_of(float largest) { return largest == -INFINITY ? 0.0f : largest; }

struct Problem {
  Forward tensors;
  Sizes sizes;
  int group;   // heads of q for each head of k
  int rows;    // of q for each head of k
  int tiles;   // of such rows
  int splits;  // of the keys

  __device__ int query_of(int row) const { return row / group; }
  __device__ int head_of(int row, int kv_head) const { return kv_head * group + row % group; }
  // What the splits of the keys come to for a row: sums of each, and its largest score with the sum of powers of two
  // of the scores less that.
  __device__ float4* sums_of(std::int64_t pair, int row) const {
    return reinterpret_cast<float4*>(tensors.scratch + (pair * rows + row) * splits * sizes.width);
  }
  __device__ float2* statistics_of(std::int64_t pair, int row) const {
    const std::int64_t all = sizes.batch * sizes.kv_heads * rows;
    return reinterpret_cast<float2*>(tensors.scratch + all * splits * sizes.width) + (pair * rows + row) * splits;
  }
};

// Of a block, from a value of each thread.
template <typename Function>
__device__ float reduce(float x, float (&of_warps)[kMostSplits / 32], Function function) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    x = function(x, __shfl_xor_sync(~0u, x, lanes));
  }
  if (threadIdx.x % 32 == 0) {
    of_warps[threadIdx.x / 32] = x;
  }
  __syncthreads();
  x = of_warps[0];
#pragma unroll
  for (int warp = 1; warp < kMostSplits / 32; ++warp) {
    x = function(x, of_warps[warp]);
  }
  return x;
}

// Adds up the splits of a row: a thread has four elements of every kGroups-th split.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kMostSplits) join(const __grid_constant__ Problem problem) {
  constexpr int kGroups = kMostSplits / (kWidth / 4);
  constexpr int kAhead = 4;
  __shared__ float largest_of[kMostSplits / 32];
  __shared__ float sum_of[kMostSplits / 32];
  __shared__ float factors[kMostSplits];
  __shared__ float4 sums_of[kGroups][kWidth / 4];
  const int i = threadIdx.x;
  const int group = i / (kWidth / 4);
  const int at = i % (kWidth / 4);
  const int row = static_cast<int>(blockIdx.x);
  const int pair = static_cast<int>(blockIdx.y);
  const Sizes& sizes = problem.sizes;
  const float4* const sums = problem.sums_of(pair, row);
  const auto get = [&](int split) {
    return split < problem.splits ? sums[split * (kWidth / 4) + at] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  };
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  float4 parts[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    parts[j] = get(group + j * kGroups);
  }
  float2 statistics = make_float2(-INFINITY, 0.0f);
  if (i < problem.splits) {
    statistics = problem.statistics_of(pair, row)[i];
  }
  const float largest = reduce(statistics.x, largest_of, [](float x, float y) { return fmaxf(x, y); });
  factors[i] = power_of_two(statistics.x - base_of(largest));
  const float total = reduce(statistics.y * factors[i], sum_of, [](float x, float y) { return x + y; });
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int from = group; from < problem.splits; from += kAhead * kGroups) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int split = from + j * kGroups;
      const float factor = split < problem.splits ? factors[split] : 0.0f;
      sum.x += parts[j].x * factor;
      sum.y += parts[j].y * factor;
      sum.z += parts[j].z * factor;
      sum.w += parts[j].w * factor;
      parts[j] = get(split + kAhead * kGroups);
    }
  }
  sums_of[group][at] = sum;
  __syncthreads();
  const int kv_heads = static_cast<int>(sizes.kv_heads);
  const std::int64_t batch = pair / kv_heads;
  const int head = problem.head_of(row, pair % kv_heads);
  const int query = problem.query_of(row);
  if (i == 0) {
    problem.tensors.lse[(batch * sizes.heads + head) * sizes.queries + query] =
        (largest + log2f(total)) * 0.6931471805599453f;  // log(2)
  }
  if (i < kWidth) {
    float all = 0.0f;
#pragma unroll
    for (int other = 0; other < kGroups; ++other) {
      all += reinterpret_cast<const float*>(sums_of[other])[i];
    }
    const View& out = problem.tensors.out;
    static_cast<T*>(out.at)[batch * out.batch + head * out.head + query * out.row + i] =
        T(total == 0.0f ? 0.0f : all / total);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
