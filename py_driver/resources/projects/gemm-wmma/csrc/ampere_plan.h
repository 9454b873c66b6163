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

// The larger a tile, the less often both matrices are read; but small products have too few large ones. All fit into
// the 99 KiB of shared memory that GPUs other than data center ones have.
struct Wide : Tile<128, 256, 64, 64, 64, 4, 1> {};
struct Middle : Tile<96, 128, 48, 64, 128, 3, 2> {};
struct Narrow : Tile<128, 64, 64, 32, 128, 4, 2> {};
struct Small : Tile<64, 64, 32, 32, 128, 4, 3> {};
struct Least : Tile<32, 64, 32, 16, 128, 4, 3> {};

// For matrices whose rows are not aligned: those of the other tiles are copied first.
struct Odd : Tile<64, 64, 32, 16, 128, 2, 2> {
  static constexpr bool kAligned = false;
};
struct OddLeast : Tile<32, 64, 16, 16, 128, 2, 2> {
  static constexpr bool kAligned = false;
};

enum class Size { wide, middle, narrow, small, least, odd, odd_least };

// function(Wide()), and so on.
template <class Function>
auto with_tile(Size size, const Function& function) {
  switch (size) {
    case Size::wide:
      return function(Wide());
    case Size::middle:
      return function(Middle());
    case Size::narrow:
      return function(Narrow());
    case Size::small:
      return function(Small());
    case Size::least:
      return function(Least());
    case Size::odd:
      return function(Odd());
    default:
      return function(OddLeast());
  }
}

struct Plan {
  Size size;
  int splits;
};

// What a plan depends on, of the current GPU: its multiprocessors, and the bytes of shared memory of one.
struct Processors {
  int count;
  int shared;
};

inline Processors processors() {
  int device = 0;
  Processors found = {1, 0};
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&found.count, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&found.shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  return found;
}

// What a product needs beside the output: copies whose rows are whole chunks, and the sums of each split.
struct Scratch {
  std::int64_t left_pitch;   // in bytes, 0 without a copy
  std::int64_t right_pitch;  // in bytes, 0 without a copy
  std::int64_t left;
  std::int64_t right;
  std::int64_t sums_pitch;  // in elements
  std::int64_t sums;
};

// The copies alone, of matrices whose rows are not aligned; `bytes` is of an element of a and b.
inline Scratch copies_for(std::int64_t bytes, const void* a, const void* b, const Sizes& sizes) {
  constexpr std::int64_t kLine = 128;
  const auto pitch = [](const void* matrix, std::int64_t row) {
    return is_aligned(matrix, row) ? 0 : rounded(row, row < kLine ? kChunk : kLine);
  };
  Scratch scratch = {};
  if (sizes.depth == 0) {
    return scratch;  // nothing is read
  }
  scratch.left_pitch = pitch(a, sizes.depth * bytes);
  scratch.left = scratch.left_pitch * sizes.rows;
  scratch.right_pitch = pitch(b, (sizes.by_columns ? sizes.depth : sizes.columns) * bytes);
  scratch.right = scratch.right_pitch * (sizes.by_columns ? sizes.columns : sizes.depth);
  return scratch;
}

// The plan with the fewest cycles, as counted here for an H200: a multiprocessor needs `alone` cycles for 128 bytes of
// the depth of a block, `together` for each of several at the same time, and `tile` for the rest of a tile. Splits cost
// a second kernel, and memory; so do copies.
inline Plan plan_for(std::int64_t bytes, const Sizes& sizes, const Scratch& copies, const Processors& gpu) {
  struct Cost {
    Size size;
    int rows;
    int columns;
    int shared;
    int blocks;
    bool aligned;
    double alone;
    double together;
    double tile;
  };
  constexpr auto cost = [](Size size, auto tile, double alone, double together, double rest) {
    using Of = decltype(tile);
    return Cost{size, Of::kRows, Of::kColumns, Of::kSharedBytes, Of::kBlocks, Of::kAligned, alone, together, rest};
  };
  constexpr Cost kCosts[] = {
      cost(Size::wide, Wide(), 1940, 1940, 6600),   cost(Size::middle, Middle(), 915, 870, 5000),
      cost(Size::narrow, Narrow(), 665, 625, 4650), cost(Size::small, Small(), 535, 420, 2800),
      cost(Size::least, Least(), 410, 295, 2500),   cost(Size::odd, Odd(), 2370, 1585, 5650),
      cost(Size::odd_least, OddLeast(), 2200, 700, 4050)};
  constexpr double kSplit = 3550;
  constexpr double kCopy = 3700;
  constexpr double kCopyRow = 25;           // of a multiprocessor, for each 2 KiB of a row
  constexpr double kCopiedBytes = 1200;     // for each cycle
  constexpr double kSumBytes = 4300;        // for each cycle, written and read
  constexpr int kReserved = 1024;           // bytes of shared memory that each block has beside its own
  constexpr std::int64_t kMostSplits = 32;
  constexpr std::int64_t kSteps = 4;  // that a split has at least, but those of odd rows, whose steps take longer
  const auto copied = [&](std::int64_t pitch, std::int64_t all) {
    if (pitch == 0) {
      return 0.0;
    }
    const std::int64_t turns = all / pitch * parts(pitch, 2048);
    return kCopy + kCopyRow * static_cast<double>(turns) / gpu.count + 2 * static_cast<double>(all) / kCopiedBytes;
  };
  const double copying = copied(copies.left_pitch, copies.left) + copied(copies.right_pitch, copies.right);
  const std::int64_t steps = parts(sizes.depth * bytes, 128);
  Plan best = {Size::small, 1};
  double fewest = 0;
  for (const Cost& of : kCosts) {
    if (!of.aligned && copying == 0) {
      continue;
    }
    const std::int64_t tiles = parts(sizes.rows, of.rows) * parts(sizes.columns, of.columns);
    const std::int64_t each = std::clamp(gpu.shared / (of.shared + kReserved), 1, of.blocks);
    const std::int64_t most = std::min(kMostSplits, of.aligned ? steps / kSteps : steps);
    for (std::int64_t splits = 1; splits == 1 || splits <= most; splits *= 2) {
      const std::int64_t rounds = tiles * splits / (gpu.count * each);
      const std::int64_t rest = parts(tiles * splits % (gpu.count * each), gpu.count);
      const auto round = [&](std::int64_t blocks) {
        const double step = std::max(of.alone, static_cast<double>(blocks) * of.together);
        return static_cast<double>(parts(steps, splits)) * step + of.tile;
      };
      double cycles = static_cast<double>(rounds) * round(each) + (rest > 0 ? round(rest) : 0);
      if (of.aligned) {
        cycles += copying;
      }
      if (splits > 1) {
        cycles += kSplit + static_cast<double>(splits * 2 * sizes.rows * sizes.columns) * sizeof(float) / kSumBytes;
      }
      if (fewest == 0 || cycles < fewest) {
        fewest = cycles;
        best = {of.size, static_cast<int>(splits)};
      }
    }
  }
  return best;
}

// All that is decided before a product starts.
struct Preparation {
  Plan plan;
  Scratch scratch;
};

inline Preparation prepare(std::int64_t bytes, const void* a, const void* b, const Sizes& sizes) {
  Scratch scratch = copies_for(bytes, a, b, sizes);
  const Plan plan = plan_for(bytes, sizes, scratch, processors());
  if (!with_tile(plan.size, [](auto tile) { return decltype(tile)::kAligned; })) {
    scratch = {};
  }
  if (plan.splits > 1) {
    scratch.sums_pitch = rounded(sizes.columns, 32);
    scratch.sums = plan.splits * sizes.rows * scratch.sums_pitch * 4;
  }
  return {plan, scratch};
}
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
