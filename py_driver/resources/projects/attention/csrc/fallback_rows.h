[% if cuda %]
// What the kernels for every GPU share: rows in shared memory, products of them, and which rows a block has.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "sequences.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// A warp has kRows rows, of queries or of keys, and goes over the rows of the other kind kLanes at a time. Each lane
// has one of these for the scores, and some elements of a row for the sums.
constexpr int kLanes = 32;
constexpr int kRows = 2;
constexpr int kWarps = 4;
constexpr int kBlock = kWarps * kRows;
constexpr int kPadded = kMostWidth + 1;  // so that lanes that read one column of their rows meet no bank twice
constexpr int kParts = kMostWidth / kLanes;

inline __device__ float to_float(float x) { return x; }
inline __device__ float to_float(__half x) { return __half2float(x); }
inline __device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T from_float(float x);
template <>
inline __device__ float from_float<float>(float x) { return x; }
template <>
inline __device__ __half from_float<__half>(float x) { return __float2half_rn(x); }
template <>
inline __device__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

inline __device__ float sum_of_warp(float x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    x += __shfl_xor_sync(~0u, x, lanes);
  }
  return x;
}

inline __device__ float largest_of_warp(float x) {
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
inline __device__ void fetch(float (*to)[kPadded], const Rows<T>& from, std::int64_t first, int rows, int width) {
  for (int i = threadIdx.x; i < rows * width; i += kWarps * kLanes) {
    to[i / width][i % width] = from.get(first + i / width, i % width);
  }
}

// For each of a warp's rows, the product with the row of this lane.
inline __device__ void multiply(float (&products)[kRows], const float (*own)[kPadded], const float* other, int width) {
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

inline __device__ bool sees(const Sizes& sizes, std::int64_t query, std::int64_t key) {
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

  // Of packed sequences: what belongs to another one is not in the tensors and sizes any more. False without a row.
  template <typename T, bool kOfKeys, typename Tensors>
  __device__ bool enter(Tensors& tensors, Sizes& sizes, const Sequences& sequences) {
    const Packed packed(sequences, sizes.queries, sizes.keys);
    const Offsets& offsets = kOfKeys ? packed.keys : packed.queries;
    const std::int64_t heads = kOfKeys ? sizes.kv_heads : sizes.heads;
    const int tile = static_cast<int>(blockIdx.x / heads);
    const int found = offsets.find<kBlock>(tile);
    const Sequence sequence = kOfKeys ? packed.sequence_of_keys(found) : packed.sequence_of_queries(found);
    first = static_cast<std::int64_t>(tile - offsets.tile<kBlock>(found)) * kBlock;
    head = blockIdx.x % heads;
    batch = 0;
    tensors = part_of(tensors, sequence, sizeof(T));
    sizes = part_of(sizes, sequence);
    tensors.scratch += sequence.query;  // it has a value for each query, as the log-sum-exps
    return first >= 0 && first < (kOfKeys ? sizes.keys : sizes.queries);
  }
};

// More blocks than a grid can have stay too many: the launch fails.
inline unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(std::min<std::int64_t>(blocks, 0xffffffff));
}

inline unsigned blocks_of(std::int64_t rows, std::int64_t heads, std::int64_t batch, const Sequences* sequences) {
  const std::int64_t tiles =
      sequences != nullptr ? tiles_of(rows, sequences->count, kBlock) : (rows + kBlock - 1) / kBlock;
  return grid_of(tiles * heads * batch);
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
}  // namespace [[ module ]]_impl
[% endif %]
