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

[% endraw %]
[% include "projects/parts/tensor_map.cpp" %]
[% raw %]
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
  if (plan.columns != Columns::few && plan.columns != Columns::split && plan.splits > 1) {
    scratch.sums_pitch = rounded(sizes.columns, 32);
    scratch.split_rows = rounded(sizes.rows, Wide::kDown * kRows);
    scratch.sums = plan.splits * scratch.split_rows * scratch.sums_pitch * 4;
  }
  return scratch;
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
