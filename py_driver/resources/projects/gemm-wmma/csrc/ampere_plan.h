[% if cuda %]
// How a product is made: the size of tiles, in how many parts the depth is split, and the scratch memory for that.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "[[ module ]].h"
#include "ampere_tiles.h"
#include "matrices.h"

namespace [[ module ]]_impl::ampere {
[% raw %]

// The larger a tile, the less often both matrices are read; but small products have too few large ones. Deep has more
// shared memory than GPUs other than data center ones have, and Wide is for those.
struct Deep : Tile<128, 256, 64, 64, 128, 3, 1> {};
struct Wide : Tile<128, 256, 64, 64, 64, 4, 1> {};
struct Middle : Tile<128, 128, 64, 64, 128, 3, 2> {};
struct Small : Tile<64, 64, 32, 32, 128, 4, 3> {};

enum class Size { deep, wide, middle, small };

// function(Deep()), and so on.
template <class Function>
int with_tile(Size size, const Function& function) {
  switch (size) {
    case Size::deep:
      return function(Deep());
    case Size::wide:
      return function(Wide());
    case Size::middle:
      return function(Middle());
    default:
      return function(Small());
  }
}

struct Plan {
  Size size;
  int splits;
};

// What a plan depends on, of the current GPU: its multiprocessors, and the bytes of shared memory that one of them and
// a block can have.
struct Processors {
  int count;
  int shared;
  int block_shared;
};

inline Processors processors() {
  int device = 0;
  Processors found = {1, 0, 0};
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&found.count, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&found.shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  cudaDeviceGetAttribute(&found.block_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return found;
}

// The plan with the fewest cycles, as counted here for an H200: a multiprocessor needs `alone` cycles for 128 bytes of
// the depth of a block, `together` for each of several at the same time, and `tile` for the rest of a tile. Splits cost
// a second kernel, and memory. `bytes` is of an element of a and b.
inline Plan plan_for(std::int64_t bytes, const Sizes& sizes, const Processors& gpu) {
  struct Cost {
    Size size;
    int rows;
    int columns;
    int shared;
    int blocks;
    double alone;
    double together;
    double tile;
  };
  constexpr Cost kCosts[] = {
      {Size::deep, Deep::kRows, Deep::kColumns, Deep::kSharedBytes, Deep::kBlocks, 1900, 1900, 3600},
      {Size::wide, Wide::kRows, Wide::kColumns, Wide::kSharedBytes, Wide::kBlocks, 2000, 2000, 3600},
      {Size::middle, Middle::kRows, Middle::kColumns, Middle::kSharedBytes, Middle::kBlocks, 1050, 1050, 3200},
      {Size::small, Small::kRows, Small::kColumns, Small::kSharedBytes, Small::kBlocks, 470, 380, 1600}};
  constexpr double kSplit = 2700;
  constexpr double kSumBytes = 2800;        // for each cycle, written and read
  constexpr int kReserved = 1024;           // bytes of shared memory that each block has beside its own
  constexpr std::int64_t kMostSplits = 32;  // which have at least four steps each
  const std::int64_t steps = parts(sizes.depth * bytes, 128);
  Plan best = {Size::small, 1};
  double fewest = 0;
  for (const Cost& cost : kCosts) {
    if (cost.shared > gpu.block_shared) {
      continue;
    }
    const std::int64_t tiles = parts(sizes.rows, cost.rows) * parts(sizes.columns, cost.columns);
    const std::int64_t each = std::clamp(gpu.shared / (cost.shared + kReserved), 1, cost.blocks);
    for (std::int64_t splits = 1; splits <= kMostSplits && splits * 4 <= std::max<std::int64_t>(steps, 4);
         splits *= 2) {
      const std::int64_t rounds = tiles * splits / (gpu.count * each);
      const std::int64_t rest = parts(tiles * splits % (gpu.count * each), gpu.count);
      const auto round = [&](std::int64_t blocks) {
        const double step = std::max(cost.alone, static_cast<double>(blocks) * cost.together);
        return static_cast<double>(parts(steps, splits)) * step + cost.tile;
      };
      double cycles = static_cast<double>(rounds) * round(each) + (rest > 0 ? round(rest) : 0);
      if (splits > 1) {
        cycles += kSplit + static_cast<double>(splits * 2 * sizes.rows * sizes.columns) * sizeof(float) / kSumBytes;
      }
      if (fewest == 0 || cycles < fewest) {
        fewest = cycles;
        best = {cost.size, static_cast<int>(splits)};
      }
    }
  }
  return best;
}

// What a plan needs beside the output: copies whose rows are whole chunks, and the sums of each split.
struct Scratch {
  std::int64_t left_pitch;   // in bytes, 0 without a copy
  std::int64_t right_pitch;  // in bytes, 0 without a copy
  std::int64_t left;
  std::int64_t right;
  std::int64_t sums_pitch;  // in elements
  std::int64_t sums;
};

inline Scratch scratch_for(std::int64_t bytes, const void* a, const void* b, const Sizes& sizes, const Plan& plan) {
  constexpr std::int64_t kLine = 128;
  const std::int64_t left = sizes.depth * bytes;
  const std::int64_t right = (sizes.by_columns ? sizes.depth : sizes.columns) * bytes;
  Scratch scratch = {};
  if (!is_aligned(a, left)) {
    scratch.left_pitch = rounded(left, kLine);
    scratch.left = scratch.left_pitch * sizes.rows;
  }
  if (!is_aligned(b, right)) {
    scratch.right_pitch = rounded(right, kLine);
    scratch.right = scratch.right_pitch * (sizes.by_columns ? sizes.columns : sizes.depth);
  }
  if (plan.splits > 1) {
    scratch.sums_pitch = rounded(sizes.columns, 32);
    scratch.sums = plan.splits * sizes.rows * scratch.sums_pitch * 4;
  }
  return scratch;
}
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
