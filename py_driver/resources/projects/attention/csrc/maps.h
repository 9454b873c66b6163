[% if cuda %]
// On the host: what TMA needs to know of a tensor.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "[[ module ]].h"

namespace [[ module ]]_impl {
[% raw %]
[% endraw %]
[% include "projects/parts/find_encode.cpp" %]
[% raw %]
constexpr std::int64_t kPart = 64;  // elements of a row that lie side by side in shared memory
constexpr std::int64_t kSize = 2;   // bytes of an element

inline bool encode(CUtensorMap& map, Type type, std::uintptr_t at, const cuuint64_t (&sizes)[5],
                   const cuuint64_t (&strides)[4], int box) {
  static const Encode function = find_encode();
  const cuuint32_t boxes[] = {kPart, static_cast<cuuint32_t>(box), static_cast<cuuint32_t>(sizes[2]), 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1, 1};
  const auto kind = type == Type::float16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return function != nullptr &&
         function(&map, kind, 5, reinterpret_cast<void*>(at), sizes, strides, boxes, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

inline cuuint64_t stride_of(std::int64_t count, std::int64_t elements) {
  // Without a second one, its distance means nothing.
  return static_cast<cuuint64_t>(count == 1 ? kPart * kSize : elements * kSize);
}

// A map of a tensor of which `box` rows of a head are loaded at a time: in parts of 64 elements. False if TMA cannot
// read it.
inline bool encode(CUtensorMap& map, Type type, const View& view, std::int64_t batch, std::int64_t heads,
                   std::int64_t rows, std::int64_t width, int box) {
  const cuuint64_t sizes[] = {kPart, static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(width / kPart),
                              static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(batch)};
  const cuuint64_t strides[] = {stride_of(rows, view.row), kPart * kSize, stride_of(heads, view.head),
                                stride_of(batch, view.batch)};
  return encode(map, type, reinterpret_cast<std::uintptr_t>(view.at), sizes, strides, box);
}

// The same for the rows of packed sequences, for `load_within`: TMA cuts off what lies outside of the tensor alone, so
// the rows of a box are a dimension of its own, which ends where a sequence does. Row i of the last dimension is `box`
// rows before row i of the tensor, and element j of the second one j rows after it.
inline bool encode_packed(CUtensorMap& map, Type type, const View& view, std::int64_t heads, std::int64_t rows,
                          std::int64_t width, int box) {
  const cuuint64_t row = stride_of(rows, view.row);
  const auto at = reinterpret_cast<std::uintptr_t>(view.at);
  const cuuint64_t sizes[] = {kPart, static_cast<cuuint64_t>(box), static_cast<cuuint64_t>(width / kPart),
                              static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(rows + 1)};
  const cuuint64_t strides[] = {row, kPart * kSize, stride_of(heads, view.head), row};
  return at > box * row && encode(map, type, at - box * row, sizes, strides, box);
}

// Whether the rows of a tensor can be stored and loaded four bytes at a time.
inline bool has_pairs(const View& view) {
  return reinterpret_cast<std::uintptr_t>(view.at) % 4 == 0 && view.batch % 2 == 0 && view.head % 2 == 0 &&
         view.row % 2 == 0;
}

struct Device {
  int major = 0;
  int processors = 0;

  // That which is current.
  Device() {
    int device = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
};

// How many (batch, head) pairs run side by side, so that what all blocks of a head read stays in the L2 cache.
__host__ __device__ inline int side_by_side(std::int64_t pairs, std::int64_t bytes_of_head) {
  constexpr std::int64_t kCache = 8 << 20;
  const std::int64_t fit = kCache / (bytes_of_head > 0 ? bytes_of_head : 1);
  return static_cast<int>(fit < 1 ? 1 : fit < pairs ? fit : pairs);
}

// What a block or a turn of one computes: a tile of a pair.
struct Spot {
  int tile;
  int pair;

  // `side_by_side` pairs at a time: the first tiles of all of these, then the second ones.
  __device__ Spot(int number, int tiles, int pairs, int side_by_side) {
    const int section = number / (side_by_side * tiles);
    const int within = number % (side_by_side * tiles);
    const int across = min(side_by_side, pairs - section * side_by_side);
    tile = within / across;
    pair = section * side_by_side + within % across;
  }
};
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
