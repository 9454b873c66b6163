[% if cuda %]
// Matrices in the memory of a Hopper GPU: what TMA needs to know of them, and rows of x in the order of the experts.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "[[ module ]].h"
#include "hopper_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

constexpr int kChunk = 8;  // elements in 16 bytes

inline std::int64_t parts(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

inline bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// Matrices of one size, `matrices` in number, whose lines and beginnings are so many elements apart.
struct Matrices {
  const void* first;
  std::int64_t width;
  std::int64_t lines;
  std::int64_t matrices;
  std::int64_t line_stride;
  std::int64_t matrix_stride;
};
[% endraw %]
[% include "projects/parts/find_encode.cpp" %]
[% raw %]
template <typename T>
constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
constexpr CUtensorMapDataType kMap<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

// What TMA needs to know of matrices that it moves in boxes of kBytes by `height` lines, as `rank` dimensions.
template <typename T>
bool encode(CUtensorMap& map, const Matrices& matrices, int rank, int height) {
  static const Encode function = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrices.width), static_cast<cuuint64_t>(matrices.lines),
                              static_cast<cuuint64_t>(matrices.matrices)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrices.line_stride) * sizeof(T),
                                static_cast<cuuint64_t>(matrices.matrix_stride) * sizeof(T)};
  const cuuint32_t box[] = {kBytes / sizeof(T), static_cast<cuuint32_t>(height), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  return function != nullptr &&
         function(&map, kMap<T>, static_cast<cuuint32_t>(rank), const_cast<void*>(matrices.first), sizes, strides, box,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Whether TMA can read x where it lies: rows in the order of the experts, each from a multiple of 16 bytes on.
inline bool is_readable(const Product& tensors) {
  return tensors.sources == nullptr && is_aligned(tensors.x) && tensors.x_stride > 0 && tensors.x_stride % kChunk == 0;
}

// The same for the weights.
inline bool are_readable(const Product& tensors) {
  return is_aligned(tensors.weights) && tensors.weight_stride > 0 && tensors.weight_stride % kChunk == 0 &&
         (tensors.experts == 1 || tensors.expert_stride > 0) && tensors.expert_stride % kChunk == 0;
}

inline std::int64_t copy_pitch(const Product& tensors) { return parts(tensors.depth, kChunk) * kChunk; }

// Each thread moves 16 bytes; a warp has a row, a block some of them.
constexpr int kCopyRows = 8;
constexpr int kCopySteps = 4;

// The rows of x in the order of the experts, `pitch` elements apart. TMA could load each row by its index instead, but
// with 128 boxes of a row in the place of two, 8192 rows times 4096 x 14336 took 5.6 times as long on an H200.
template <typename T>
__global__ void __launch_bounds__(32 * kCopyRows)
    copy_rows(T* __restrict__ to, Product tensors, std::int64_t pitch, bool aligned) {
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(kCopyRows) + threadIdx.y;
  if (row >= tensors.rows) {
    return;
  }
  const std::int64_t source = tensors.sources != nullptr ? tensors.sources[row] : row;
  const T* const from = static_cast<const T*>(tensors.x) + source * tensors.x_stride;
  for (std::int64_t first = threadIdx.x * kChunk; first < pitch; first += 32 * kChunk * kCopySteps) {
    uint4 chunks[kCopySteps] = {};
#pragma unroll
    for (int step = 0; step < kCopySteps; ++step) {
      const std::int64_t at = first + step * 32 * kChunk;
      if (aligned && at < pitch) {
        chunks[step] = *reinterpret_cast<const uint4*>(from + at);
      } else {
        for (int i = 0; i < kChunk && at + i < tensors.depth; ++i) {
          reinterpret_cast<T*>(&chunks[step])[i] = from[at + i];
        }
      }
    }
#pragma unroll
    for (int step = 0; step < kCopySteps; ++step) {
      const std::int64_t at = first + step * 32 * kChunk;
      if (at < pitch) {
        *reinterpret_cast<uint4*>(to + row * pitch + at) = chunks[step];
      }
    }
  }
}

// x as TMA can read it: where it lies, or a copy in `scratch`.
template <typename T>
Matrices readable_rows(const Product& tensors, void* scratch, cudaStream_t stream) {
  if (is_readable(tensors)) {
    return {tensors.x, tensors.depth, tensors.rows, 1, tensors.x_stride, tensors.x_stride};
  }
  const std::int64_t pitch = copy_pitch(tensors);
  const bool aligned = is_aligned(tensors.x) && (tensors.x_stride | tensors.depth) % kChunk == 0;
  copy_rows<<<static_cast<unsigned>(parts(tensors.rows, kCopyRows)), dim3(32, kCopyRows), 0, stream>>>(
      static_cast<T*>(scratch), tensors, pitch, aligned);
  return {scratch, tensors.depth, tensors.rows, 1, pitch, pitch};
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
