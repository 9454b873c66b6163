[% if cuda %]
// Matrices in the memory of a Hopper GPU: copies that TMA can read, sums of splits, and what TMA needs to know.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "[[ module ]].h"
#include "hopper_plan.h"

namespace [[ module ]]_impl {
[% raw %]

struct Matrix {
  const void* first;
  std::int64_t columns;
  std::int64_t rows;
  std::int64_t pitch;  // elements from row to row
};

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

// Each thread moves 16 bytes to where they are aligned; a warp has a row, a block some of them.
constexpr int kCopyRows = 8;
constexpr int kCopySteps = 4;
constexpr int kVector = sizeof(uint4);

static __global__ void __launch_bounds__(32 * kCopyRows)
    copy_rows(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, std::int64_t rows,
              std::int64_t bytes, std::int64_t pitch) {
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(kCopyRows) + threadIdx.y;
  if (row >= rows) {
    return;
  }
  const unsigned char* const source = from + row * bytes;
  const unsigned char* const end = from + rows * bytes;
  const unsigned shift = reinterpret_cast<std::uintptr_t>(source) % 4;
  constexpr std::int64_t kStep = 32 * kVector;
  for (std::int64_t first = blockIdx.y * kStep * kCopySteps + threadIdx.x * kVector; first < bytes;
       first += gridDim.y * kStep * kCopySteps) {
#pragma unroll
    for (int step = 0; step < kCopySteps; ++step) {
      const std::int64_t at = first + step * kStep;
      const unsigned char* const aligned = source + at - shift;
      uint4 vector = {0, 0, 0, 0};
      if (at + kVector <= bytes && aligned >= from && aligned + kVector + 4 <= end) {
        const auto* const words = reinterpret_cast<const unsigned*>(aligned);
        unsigned word[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) {
          word[i] = words[i];
        }
        vector = {__funnelshift_r(word[0], word[1], 8 * shift), __funnelshift_r(word[1], word[2], 8 * shift),
                  __funnelshift_r(word[2], word[3], 8 * shift), __funnelshift_r(word[3], word[4], 8 * shift)};
      } else {
        for (int i = 0; i < kVector && at + i < bytes; ++i) {
          reinterpret_cast<unsigned char*>(&vector)[i] = source[at + i];
        }
      }
      if (at < bytes) {
        *reinterpret_cast<uint4*>(to + row * pitch + at) = vector;
      }
    }
  }
}

// The sums of all splits, always in the same order.
constexpr int kAddThreads = 256;

template <typename Out, typename Sum>
__global__ void __launch_bounds__(kAddThreads)
    add_splits(Out* __restrict__ out, const Sum* __restrict__ sums, int splits, std::int64_t rows, std::int64_t columns,
               std::int64_t pitch, std::int64_t split) {
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kAddThreads) + threadIdx.x;
  for (std::int64_t row = blockIdx.y; row < rows && column < columns; row += gridDim.y) {
    const Sum* const from = sums + row * pitch + column;
    Sum sum = 0;
    for (int i = 0; i < splits; ++i) {
      sum += from[i * split];
    }
    out[row * columns + column] = static_cast<Out>(sum);
  }
}
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

// The matrix, or a copy of it whose rows have another pitch.
inline Matrix placed(const void* from, std::int64_t columns, std::int64_t rows, std::int64_t size, void* copy,
              std::int64_t pitch, cudaStream_t stream) {
  if (pitch == 0) {
    return {from, columns, rows, columns};
  }
  const std::int64_t bytes = columns * size;
  const std::int64_t across = std::min<std::int64_t>(parts(bytes, 32 * kVector * kCopySteps), 65535);
  const dim3 blocks(static_cast<unsigned>(parts(rows, kCopyRows)), static_cast<unsigned>(across));
  copy_rows<<<blocks, dim3(32, kCopyRows), 0, stream>>>(
      static_cast<unsigned char*>(copy), static_cast<const unsigned char*>(from), rows, bytes, pitch);
  return {copy, columns, rows, pitch / size};
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
