[% if cuda %]
// Matrices in the memory of a Hopper GPU: the scratch memory of a plan, and what TMA needs to know.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "[[ module ]].h"
#include "hopper_plan.h"
#include "matrix_copies.h"

namespace [[ module ]]_impl {
[% raw %]

// What a plan needs beside the output: copies whose rows are as TMA can read them, and the sums of each split.
struct Scratch {
  std::int64_t left_pitch;   // in bytes, 0 without a copy
  std::int64_t right_pitch;  // in bytes, 0 without a copy
  std::int64_t left;
  std::int64_t right;
  std::int64_t sums_pitch;  // in elements
  std::int64_t split_rows;
  std::int64_t sums;
};

using Encode = decltype(&cuTensorMapEncodeTiled);

// A function of the driver: the runtime knows where, so that nothing links against libcuda.
inline Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
}

template <typename T>
constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_UINT8;
template <>
constexpr CUtensorMapDataType kMap<__half> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
constexpr CUtensorMapDataType kMap<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
template <>
constexpr CUtensorMapDataType kMap<float> = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
template <>
constexpr CUtensorMapDataType kMap<int> = CU_TENSOR_MAP_DATA_TYPE_INT32;

// What TMA needs to know of a matrix that it moves in boxes of kBytes by `height` rows.
template <typename T>
bool encode(CUtensorMap& map, const Matrix& matrix, int height) {
  static const Encode function = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.columns), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.pitch) * sizeof(T)};
  const cuuint32_t box[] = {kBytes / sizeof(T), static_cast<cuuint32_t>(height)};
  const cuuint32_t steps[] = {1, 1};
  return function != nullptr &&
         function(&map, kMap<T>, 2, const_cast<void*>(matrix.first), sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

inline Scratch scratch_for(std::int64_t size, const void* a, const void* b, const Sizes& sizes, const Plan& plan) {
  const std::int64_t left = sizes.depth * size;
  const std::int64_t right = (sizes.by_columns ? sizes.depth : sizes.columns) * size;
  Scratch scratch = {};
  if (!is_aligned(a, left)) {
    scratch.left_pitch = rounded(left, kBytes);
    scratch.left = scratch.left_pitch * sizes.rows;
  }
  if (!is_aligned(b, right)) {
    scratch.right_pitch = rounded(right, kBytes);
    scratch.right = scratch.right_pitch * (sizes.by_columns ? sizes.columns : sizes.depth);
  }
  if (plan.splits > 1) {
    scratch.sums_pitch = rounded(sizes.columns, 32);
    scratch.split_rows = rounded(sizes.rows, Wide::kDown * kRows);
    scratch.sums = plan.splits * scratch.split_rows * scratch.sums_pitch * 4;
  }
  return scratch;
}

[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
