[% if cuda %]
#include "debug.h"
#include "fallback.h"
#include "fallback_rows.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

template <typename T, bool kPacked>
__global__ void __launch_bounds__(kWarps* kLanes)
    attend(Forward tensors, Sizes sizes, Sequences sequences) {
  __shared__ float own[kBlock][kPadded];
  __shared__ float other[kLanes][kPadded];
  Place place(sizes.queries, sizes.heads);
  if constexpr (kPacked) {
    if (!place.enter<T, false>(tensors, sizes, sequences)) {
      return;
    }
  }
  const int width = static_cast<int>(sizes.width);
  const int lane = threadIdx.x % kLanes;
  const int warp_row = threadIdx.x / kLanes * kRows;
  const std::int64_t kv_head = place.head / (sizes.heads / sizes.kv_heads);
  const Rows<T> k(tensors.k, place.batch, kv_head, sizes.keys);
  const Rows<T> v(tensors.v, place.batch, kv_head, sizes.keys);
  fetch(own, Rows<T>(tensors.q, place.batch, place.head, sizes.queries), place.first, kBlock, width);
  float sums[kRows][kParts] = {};
  float largest[kRows];
  float all[kRows] = {};
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    largest[row] = -INFINITY;
  }
  std::int64_t end = sizes.keys;
  if (sizes.causal) {
    end = min(end, place.first + kBlock + sizes.keys - sizes.queries);
  }
  for (std::int64_t from = 0; from < end; from += kLanes) {
    __syncthreads();
    fetch(other, k, from, kLanes, width);
    __syncthreads();
    float weights[kRows];
    multiply(weights, own + warp_row, other[lane], width);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const bool seen = sees(sizes, place.first + warp_row + row, from + lane);
      const float score = seen ? weights[row] * sizes.scale : -INFINITY;
      const float larger = fmaxf(largest[row], largest_of_warp(score));
      const float base = larger == -INFINITY ? 0.0f : larger;
      const float factor = expf(largest[row] - base);
      largest[row] = larger;
      weights[row] = expf(score - base);
      all[row] = all[row] * factor + weights[row];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        sums[row][part] *= factor;
      }
    }
    __syncthreads();
    fetch(other, v, from, kLanes, width);
    __syncthreads();
    accumulate(sums, weights, other, width);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const std::int64_t query = place.first + warp_row + row;
    const float total = sum_of_warp(all[row]);
    if (query < sizes.queries) {
      store<T>(tensors.out, place.batch, place.head, query, sums[row], largest[row] == -INFINITY ? 0.0f : 1.0f / total,
               width);
      if (lane == 0) {
        tensors.lse[(place.batch * sizes.heads + place.head) * tensors.lse_head + query] = largest[row] + logf(total);
      }
    }
  }
}

}  // namespace

int fallback_forward(Type type, const Forward& tensors, const Sizes& sizes, const Sequences* sequences, void* stream) {
  return with_type(type, [&](auto zero) -> int {
    using T = decltype(zero);
    const auto function = sequences != nullptr ? attend<T, true> : attend<T, false>;
    function<<<blocks_of(sizes.queries, sizes.heads, sizes.batch, sequences), kWarps * kLanes, 0,
               static_cast<cudaStream_t>(stream)>>>(tensors, sizes, sequences != nullptr ? *sequences : Sequences());
    return cudaGetLastError();
  });
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
