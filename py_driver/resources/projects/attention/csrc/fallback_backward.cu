[% if cuda %]
#include "debug.h"
#include "fallback.h"
#include "fallback_rows.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// delta: the sum of grad_out * out, for each query.
template <typename T>
__global__ void __launch_bounds__(kWarps* kLanes) prepare(Backward tensors, Sizes sizes) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  if (row >= sizes.batch * sizes.heads * sizes.queries) {
    return;
  }
  const std::int64_t head = row / sizes.queries;
  const Rows<T> out(tensors.out, head / sizes.heads, head % sizes.heads, sizes.queries);
  const Rows<T> grad(tensors.grad_out, head / sizes.heads, head % sizes.heads, sizes.queries);
  float sum = 0.0f;
  for (int i = threadIdx.x % kLanes; i < sizes.width; i += kLanes) {
    sum += out.get(row % sizes.queries, i) * grad.get(row % sizes.queries, i);
  }
  sum = sum_of_warp(sum);
  if (threadIdx.x % kLanes == 0) {
    tensors.scratch[row] = sum;
  }
}

// The gradient of a score over its weight, and the weight, of this lane's pair.
__device__ float of_score(float& weight, const Sizes& sizes, std::int64_t query, std::int64_t key, float product,
                          float of_weight, float lse, float delta) {
  weight = sees(sizes, query, key) ? expf(product * sizes.scale - lse) : 0.0f;
  return weight * (of_weight - delta);
}

template <typename T, bool kPacked>
__global__ void __launch_bounds__(kWarps* kLanes)
    differentiate_queries(Backward tensors, Sizes sizes, Sequences sequences) {
  extern __shared__ float shared[][kPadded];
  float(*const own)[kPadded] = shared;
  float(*const own_grad)[kPadded] = own + kBlock;
  float(*const keys)[kPadded] = own_grad + kBlock;
  float(*const values)[kPadded] = keys + kLanes;
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
  fetch(own_grad, Rows<T>(tensors.grad_out, place.batch, place.head, sizes.queries), place.first, kBlock, width);
  const std::int64_t statistics = (place.batch * sizes.heads + place.head) * tensors.lse_head;
  float sums[kRows][kParts] = {};
  std::int64_t end = sizes.keys;
  if (sizes.causal) {
    end = min(end, place.first + kBlock + sizes.keys - sizes.queries);
  }
  for (std::int64_t from = 0; from < end; from += kLanes) {
    __syncthreads();
    fetch(keys, k, from, kLanes, width);
    fetch(values, v, from, kLanes, width);
    __syncthreads();
    float products[kRows];
    float of_weights[kRows];
    multiply(products, own + warp_row, keys[lane], width);
    multiply(of_weights, own_grad + warp_row, values[lane], width);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const std::int64_t query = place.first + warp_row + row;
      const std::int64_t at = statistics + min(query, sizes.queries - 1);
      float weight;
      products[row] = of_score(weight, sizes, query, from + lane, products[row], of_weights[row], tensors.lse[at],
                               tensors.scratch[at]);
    }
    accumulate(sums, products, keys, width);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (place.first + warp_row + row < sizes.queries) {
      store<T>(tensors.grad_q, place.batch, place.head, place.first + warp_row + row, sums[row], sizes.scale, width);
    }
  }
}

template <typename T, bool kPacked>
__global__ void __launch_bounds__(kWarps* kLanes)
    differentiate_keys(Backward tensors, Sizes sizes, Sequences sequences) {
  extern __shared__ float shared[][kPadded];
  float(*const own)[kPadded] = shared;
  float(*const own_values)[kPadded] = own + kBlock;
  float(*const queries)[kPadded] = own_values + kBlock;
  float(*const grads)[kPadded] = queries + kLanes;
  Place place(sizes.keys, sizes.kv_heads);
  if constexpr (kPacked) {
    if (!place.enter<T, true>(tensors, sizes, sequences)) {
      return;
    }
  }
  const int width = static_cast<int>(sizes.width);
  const int lane = threadIdx.x % kLanes;
  const int warp_row = threadIdx.x / kLanes * kRows;
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  fetch(own, Rows<T>(tensors.k, place.batch, place.head, sizes.keys), place.first, kBlock, width);
  fetch(own_values, Rows<T>(tensors.v, place.batch, place.head, sizes.keys), place.first, kBlock, width);
  float of_keys[kRows][kParts] = {};
  float of_values[kRows][kParts] = {};
  std::int64_t begin = 0;
  if (sizes.causal) {
    begin = max(begin, place.first - (sizes.keys - sizes.queries));
  }
  for (std::int64_t head = place.head * group; head < (place.head + 1) * group; ++head) {
    const Rows<T> q(tensors.q, place.batch, head, sizes.queries);
    const Rows<T> grad(tensors.grad_out, place.batch, head, sizes.queries);
    const std::int64_t statistics = (place.batch * sizes.heads + head) * tensors.lse_head;
    for (std::int64_t from = begin; from < sizes.queries; from += kLanes) {
      __syncthreads();
      fetch(queries, q, from, kLanes, width);
      fetch(grads, grad, from, kLanes, width);
      __syncthreads();
      float products[kRows];
      float weights[kRows];
      multiply(products, own + warp_row, queries[lane], width);
      multiply(weights, own_values + warp_row, grads[lane], width);
      const std::int64_t at = statistics + min(from + lane, sizes.queries - 1);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        products[row] = of_score(weights[row], sizes, from + lane, place.first + warp_row + row, products[row],
                                 weights[row], tensors.lse[at], tensors.scratch[at]);
      }
      accumulate(of_keys, products, queries, width);
      accumulate(of_values, weights, grads, width);
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const std::int64_t key = place.first + warp_row + row;
    if (key < sizes.keys) {
      store<T>(tensors.grad_k, place.batch, place.head, key, of_keys[row], sizes.scale, width);
      store<T>(tensors.grad_v, place.batch, place.head, key, of_values[row], 1.0f, width);
    }
  }
}

}  // namespace

int fallback_backward(Type type, const Backward& tensors, const Sizes& sizes, const Sequences* sequences,
                      void* stream) {
  return with_type(type, [&](auto zero) -> int {
    using T = decltype(zero);
    const auto on = static_cast<cudaStream_t>(stream);
    constexpr int kShared = sizeof(float) * 2 * (kBlock + kLanes) * kPadded;
    const std::int64_t rows = sizes.batch * sizes.heads * sizes.queries;
    const auto of_queries = sequences != nullptr ? differentiate_queries<T, true> : differentiate_queries<T, false>;
    const auto of_keys = sequences != nullptr ? differentiate_keys<T, true> : differentiate_keys<T, false>;
    for (const auto function : {of_queries, of_keys}) {
      const auto kind = cudaFuncAttributeMaxDynamicSharedMemorySize;
      if (const cudaError_t error = cudaFuncSetAttribute(function, kind, kShared)) {
        return error;
      }
    }
    const Sequences given = sequences != nullptr ? *sequences : Sequences();
    prepare<T><<<grid_of((rows + kWarps - 1) / kWarps), kWarps * kLanes, 0, on>>>(tensors, sizes);
    of_queries<<<blocks_of(sizes.queries, sizes.heads, sizes.batch, sequences), kWarps * kLanes, kShared, on>>>(
        tensors, sizes, given);
    if (sizes.keys > 0) {
      of_keys<<<blocks_of(sizes.keys, sizes.kv_heads, sizes.batch, sequences), kWarps * kLanes, kShared, on>>>(
          tensors, sizes, given);
    }
    return cudaGetLastError();
  });
}

std::int64_t fallback_backward_scratch(const Sizes& sizes) { return sizes.batch * sizes.heads * sizes.queries; }
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
