[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "debug.h"
#include "few_queries.h"
#include "hopper.h"

namespace [[ module ]]_impl {
namespace {

// These kernels run on every GPU, for every width: a warp has kRows rows, of queries or of keys, and goes over the rows
// of the other kind kLanes at a time. Each lane has one of these for the scores, and some elements of a row for the
// sums. The fast ones are in hopper_forward.cu and hopper_backward.cu.
constexpr int kLanes = 32;
constexpr int kRows = 2;
constexpr int kWarps = 4;
constexpr int kBlock = kWarps * kRows;
constexpr int kPadded = kMostWidth + 1;  // so that lanes that read one column of their rows meet no bank twice
constexpr int kParts = kMostWidth / kLanes;

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T from_float(float x);
template <>
__device__ float from_float<float>(float x) { return x; }
template <>
__device__ __half from_float<__half>(float x) { return __float2half_rn(x); }
template <>
__device__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

__device__ float sum_of_warp(float x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    x += __shfl_xor_sync(~0u, x, lanes);
  }
  return x;
}

__device__ float largest_of_warp(float x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, lanes));
  }
  return x;
}

// Which rows of a tensor are read: those of one batch and head, and only those that there are.
template <typename T>
struct Rows {
  const T* at;
  std::int64_t stride;
  std::int64_t count;

  __device__ Rows(const View& view, std::int64_t batch, std::int64_t head, std::int64_t rows)
      : at(static_cast<const T*>(view.at) + batch * view.batch + head * view.head), stride(view.row), count(rows) {}

  __device__ float get(std::int64_t row, int i) const { return row < count ? to_float(at[row * stride + i]) : 0.0f; }
};

// `rows` rows from `first` on, into shared memory, by all threads of a block.
template <typename T>
__device__ void fetch(float (*to)[kPadded], const Rows<T>& from, std::int64_t first, int rows, int width) {
  for (int i = threadIdx.x; i < rows * width; i += kWarps * kLanes) {
    to[i / width][i % width] = from.get(first + i / width, i % width);
  }
}

// For each of a warp's rows, the product with the row of this lane.
__device__ void multiply(float (&products)[kRows], const float (*own)[kPadded], const float* other, int width) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    products[row] = 0.0f;
  }
  for (int i = 0; i < width; ++i) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      products[row] += own[row][i] * other[i];
    }
  }
}

// sums += weights @ other: a weight for each row and lane, kLanes rows of `other`.
__device__ void accumulate(float (&sums)[kRows][kParts], const float (&weights)[kRows], const float (*other)[kPadded],
                           int width) {
  for (int lane = 0; lane < kLanes; ++lane) {
    float weight[kRows];
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      weight[row] = __shfl_sync(~0u, weights[row], lane);
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int i = part * kLanes + threadIdx.x % kLanes;
      if (i < width) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          sums[row][part] += weight[row] * other[lane][i];
        }
      }
    }
  }
}

template <typename T>
__device__ void store(const View& view, std::int64_t batch, std::int64_t head, std::int64_t row,
                      const float (&sums)[kParts], float factor, int width) {
  T* const to = static_cast<T*>(view.at) + batch * view.batch + head * view.head + row * view.row;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int i = part * kLanes + threadIdx.x % kLanes;
    if (i < width) {
      to[i] = from_float<T>(sums[part] * factor);
    }
  }
}

__device__ bool sees(const Sizes& sizes, std::int64_t query, std::int64_t key) {
  return query < sizes.queries && key < sizes.keys && (!sizes.causal || key <= query + sizes.keys - sizes.queries);
}

// A block's place in a grid of one dimension: which tile of rows, of which batch and head.
struct Place {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t first;

  __device__ Place(std::int64_t rows, std::int64_t heads) {
    const std::int64_t tiles = (rows + kBlock - 1) / kBlock;
    first = blockIdx.x % tiles * kBlock;
    head = blockIdx.x / tiles % heads;
    batch = blockIdx.x / tiles / heads;
  }
};

template <typename T>
__global__ void __launch_bounds__(kWarps* kLanes) attend(Forward tensors, Sizes sizes) {
  __shared__ float own[kBlock][kPadded];
  __shared__ float other[kLanes][kPadded];
  const Place place(sizes.queries, sizes.heads);
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
        tensors.lse[(place.batch * sizes.heads + place.head) * sizes.queries + query] = largest[row] + logf(total);
      }
    }
  }
}

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

template <typename T>
__global__ void __launch_bounds__(kWarps* kLanes) differentiate_queries(Backward tensors, Sizes sizes) {
  extern __shared__ float shared[][kPadded];
  float(*const own)[kPadded] = shared;
  float(*const own_grad)[kPadded] = own + kBlock;
  float(*const keys)[kPadded] = own_grad + kBlock;
  float(*const values)[kPadded] = keys + kLanes;
  const Place place(sizes.queries, sizes.heads);
  const int width = static_cast<int>(sizes.width);
  const int lane = threadIdx.x % kLanes;
  const int warp_row = threadIdx.x / kLanes * kRows;
  const std::int64_t kv_head = place.head / (sizes.heads / sizes.kv_heads);
  const Rows<T> k(tensors.k, place.batch, kv_head, sizes.keys);
  const Rows<T> v(tensors.v, place.batch, kv_head, sizes.keys);
  fetch(own, Rows<T>(tensors.q, place.batch, place.head, sizes.queries), place.first, kBlock, width);
  fetch(own_grad, Rows<T>(tensors.grad_out, place.batch, place.head, sizes.queries), place.first, kBlock, width);
  const std::int64_t statistics = (place.batch * sizes.heads + place.head) * sizes.queries;
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

template <typename T>
__global__ void __launch_bounds__(kWarps* kLanes) differentiate_keys(Backward tensors, Sizes sizes) {
  extern __shared__ float shared[][kPadded];
  float(*const own)[kPadded] = shared;
  float(*const own_values)[kPadded] = own + kBlock;
  float(*const queries)[kPadded] = own_values + kBlock;
  float(*const grads)[kPadded] = queries + kLanes;
  const Place place(sizes.keys, sizes.kv_heads);
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
    const std::int64_t statistics = (place.batch * sizes.heads + head) * sizes.queries;
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
[% raw %]
// More blocks than a grid can have stay too many: the launch fails.
unsigned grid_of(std::int64_t blocks) { return static_cast<unsigned>(std::min<std::int64_t>(blocks, 0xffffffff)); }

unsigned blocks_of(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return grid_of((rows + kBlock - 1) / kBlock * heads * batch);
}

template <typename Function>
int with_type(Type type, Function function) {
  switch (type) {
    case Type::float32:
      return function(float());
    case Type::float16:
      return function(__half());
    default:
      return function(__nv_bfloat16());
  }
}
[% endraw %]

}  // namespace

int forward(Type type, const Forward& tensors, const Sizes& sizes, void* stream) {
  // Hopper's kernel has a block for each head of q. It is the faster one for a few queries of so many heads that most
  // of the 132 multiprocessors have work, if no two share keys, which it would read again.
  constexpr std::int64_t kManyHeads = 96;
  const bool is_for_hopper =
      sizes.queries > 1 && sizes.heads == sizes.kv_heads && sizes.batch * sizes.heads >= kManyHeads;
  if (!is_for_hopper) {
    if (const int result = forward_of_few(type, tensors, sizes, stream); result != kManyQueries) {
      return result;
    }
  }
#if __CUDACC_VER_MAJOR__ >= 12
  if (const int result = forward_on_hopper(type, tensors, sizes, stream); result != kNotForHopper) {
    return result;
  }
#endif
  if (is_for_hopper) {
    if (const int result = forward_of_few(type, tensors, sizes, stream); result != kManyQueries) {
      return result;
    }
  }
  return with_type(type, [&](auto zero) -> int {
    attend<decltype(zero)><<<blocks_of(sizes.queries, sizes.heads, sizes.batch), kWarps * kLanes, 0,
                             static_cast<cudaStream_t>(stream)>>>(tensors, sizes);
    return cudaGetLastError();
  });
}

int backward(Type type, const Backward& tensors, const Sizes& sizes, void* stream) {
#if __CUDACC_VER_MAJOR__ >= 12
  if (const int result = backward_on_hopper(type, tensors, sizes, stream); result != kNotForHopper) {
    return result;
  }
#endif
  return with_type(type, [&](auto zero) -> int {
    using T = decltype(zero);
    const auto on = static_cast<cudaStream_t>(stream);
    constexpr int kShared = sizeof(float) * 2 * (kBlock + kLanes) * kPadded;
    const std::int64_t rows = sizes.batch * sizes.heads * sizes.queries;
    for (const auto function : {differentiate_queries<T>, differentiate_keys<T>}) {
      const auto kind = cudaFuncAttributeMaxDynamicSharedMemorySize;
      if (const cudaError_t error = cudaFuncSetAttribute(function, kind, kShared)) {
        return error;
      }
    }
    prepare<T><<<grid_of((rows + kWarps - 1) / kWarps), kWarps * kLanes, 0, on>>>(tensors, sizes);
    differentiate_queries<T><<<blocks_of(sizes.queries, sizes.heads, sizes.batch), kWarps * kLanes, kShared, on>>>(
        tensors, sizes);
    if (sizes.keys > 0) {
      differentiate_keys<T><<<blocks_of(sizes.keys, sizes.kv_heads, sizes.batch), kWarps * kLanes, kShared, on>>>(
          tensors, sizes);
    }
    return cudaGetLastError();
  });
}

std::int64_t forward_scratch(Type type, const Sizes& sizes) {
  const std::int64_t of_few = forward_scratch_of_few(type, sizes);
#if __CUDACC_VER_MAJOR__ >= 12
  return std::max(of_few, forward_scratch_on_hopper());
#else
  return of_few;
#endif
}

std::int64_t backward_scratch(Type type, const Sizes& sizes) {
  const std::int64_t own = sizes.batch * sizes.heads * sizes.queries;
#if __CUDACC_VER_MAJOR__ >= 12
  return std::max(own, backward_scratch_on_hopper(type, sizes));
#else
  return own;
#endif
}

}  // namespace [[ module ]]_impl
[% endif %]
