[% if cuda %]
// How a product is made on a Hopper GPU: see `plan_for`.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "[[ module ]].h"
#include "hopper_tiles.h"
#include "matrices.h"

namespace [[ module ]]_impl {
[% raw %]

// Tiles are in pairs below each other, but those of 64 columns also beside each other: where the output has an odd
// number of tiles below each other, or its depth more than kBelowSplits parts. Pairs below were up to 18 % slower with
// more parts, and up to 16 % faster with fewer, on an H200.
using Wide = Shape<256, 2, 1>;
using Large = Shape<224, 2, 1>;
using Broad = Shape<192, 2, 1>;
using Middle = Shape<128, 2, 1>;
using Narrow = Shape<64, 2, 1>;
using Beside = Shape<64, 1, 2>;
constexpr std::int64_t kBelowSplits = 4;

// At most so many rows have a kernel of their own: see hopper_few.h. Its tiles have all rows, and so many columns; a
// cluster has at most so many blocks, each with a part of the depth.
constexpr int kFewRows = 64;
constexpr int kFewColumns = 128;
constexpr int kFewSplits = 8;
constexpr std::int64_t kFewBytes = std::int64_t{1} << 19;  // of b: smaller ones have the other tiles

enum class Columns { wide, large, broad, middle, narrow, beside, few, split };

// The tiles of hopper_split.h: rows of one, and how many below each other a cluster has.
struct SplitSize {
  int high;
  int down;
};
constexpr SplitSize kSplitSizes[] = {{64, 1},  {64, 2},  {80, 1},  {80, 2},  {96, 1},  {96, 2},  {112, 1},
                                     {112, 2}, {128, 1}, {160, 1}, {160, 2}, {192, 1}, {208, 1}};
constexpr int kSplitSizeCount = sizeof(kSplitSizes) / sizeof(kSplitSizes[0]);
constexpr int kMostSplits = 8;

// More rows have these tiles only if one round is enough: a block has one tile, and does not load the next meanwhile.
constexpr int kSomeRows = 640;

// How the product is made: the shape of tiles, and in how many parts the depth is split. `size` is the place in
// kSplitSizes where `columns` is `split`.
struct Plan {
  Columns columns;
  int splits;
  int size;
};

// How many blocks share the depth of a tile of few rows: as many as there are multiprocessors for, but each has two
// steps.
inline int few_splits(std::int64_t tiles, std::int64_t steps, int processors) {
  int splits = 1;
  while (splits < kFewSplits && tiles * splits * 2 <= processors && splits * 4 <= steps) {
    splits *= 2;
  }
  return splits;
}

// How many clusters of so many blocks run at the same time, one block on a multiprocessor: a cluster lies in one group
// of multiprocessors, and some are left over. Measured on an H200, and 0 where hopper_split.h has no such cluster.
inline int clusters_at_once(int blocks, int processors) {
  constexpr int kMeasured[] = {0, 132, 66, 39, 30, 0, 17, 0, 15};
  return blocks > kMostSplits ? 0 : kMeasured[blocks] * processors / 132;
}

// The cycles of work that also has to wait for memory: about the larger of both, and more if they are about the same.
inline double cycles_with(double memory, double work) {
  const double less = std::min(memory, work) / std::max(memory, work);
  return std::max(memory, work) * std::sqrt(std::sqrt(1 + less * less * less * less));
}

// The cycles of a product by hopper_split.h, 0 if it cannot have so many parts. WGMMA bounds a step, or the bytes that
// come from the L2 cache in a cycle: fewer for each multiprocessor if more than every second one loads, and more if two
// share them. The constants, kSplit and kColdBytes were fitted to 175 products of 33 to 2048 rows on an H200, each in
// some 79 plans: the chosen one took 2 % more time than the fastest one on average, and 16 % at most.
inline double cycles_of_split(const SplitSize& size, const Sizes& sizes, std::int64_t steps, int splits,
                              int processors, double memory) {
  constexpr double kRow = 5.15;
  constexpr double kAlone = 58.8;
  constexpr double kAll = 43.7;
  constexpr double kShared = 57.9;
  constexpr double kStart = 2750;
  constexpr double kTile = 1900;
  constexpr double kTwoParts = 2860;
  constexpr double kPart = 833;  // for each further one, as larger clusters leave multiprocessors over
  const int at_once = clusters_at_once(size.down * splits, processors);
  if (at_once == 0 || steps < splits) {
    return 0;
  }
  const std::int64_t clusters = parts(sizes.rows, size.high * size.down) * parts(sizes.columns, kFewColumns);
  if (clusters > at_once && sizes.rows > kSomeRows) {
    return 0;
  }
  const double rounds = static_cast<double>(parts(clusters, at_once));
  const double loading = static_cast<double>(std::min<std::int64_t>(clusters, at_once) * size.down * splits);
  const double more = std::max(loading / processors * 2 - 1, 0.0);
  const double rate = size.down > 1 ? kShared : kAlone - more * (kAlone - kAll);
  const double step = std::max(kRow * size.high, (kFewColumns + size.high) * kBytes / rate);
  return kStart + cycles_with(memory, rounds * static_cast<double>(parts(steps, splits)) * step) + rounds * kTile +
         (splits > 1 ? kTwoParts + (splits - 2) * kPart : 0);
}

// The plan with the fewest cycles, as counted here: a multiprocessor needs so many for a step of a tile's depth, and
// some for each tile; tiles come in rounds of one for each multiprocessor. Parts of the depth cost a second kernel, and
// memory, but for those of hopper_split.h. `size` is of an element of a and b, in bytes; `any` says whether the tiles
// of that, and those of 192 and 224 columns, are there too.
inline Plan plan_for(std::int64_t size, const Sizes& sizes, int processors, bool any) {
  struct Cost {
    Columns columns;
    int wide;
    int down;
    int across;
    double step;
    double tile;
  };
  constexpr Cost kCosts[] = {{Columns::wide, Wide::kColumns, Wide::kDown, Wide::kAcross, 1024, 1000},
                             {Columns::large, Large::kColumns, Large::kDown, Large::kAcross, 915, 925},
                             {Columns::broad, Broad::kColumns, Broad::kDown, Broad::kAcross, 785, 850},
                             {Columns::middle, Middle::kColumns, Middle::kDown, Middle::kAcross, 575, 700},
                             {Columns::narrow, Narrow::kColumns, Narrow::kDown, Narrow::kAcross, 400, 600},
                             {Columns::beside, Beside::kColumns, Beside::kDown, Beside::kAcross, 400, 600}};
  constexpr double kStart = 4200;
  constexpr double kSplit = 7890;
  constexpr double kSumBytes = 1500;  // for each cycle
  constexpr double kColdBytes = 3760;  // of b, for each cycle
  const std::int64_t steps = parts(sizes.depth * size, kBytes);
  if (sizes.rows <= (any ? kFewRows / 2 : kFewRows) && sizes.columns * sizes.depth * size >= kFewBytes) {
    return {Columns::few, few_splits(parts(sizes.columns, kFewColumns), steps, processors), 0};
  }
  const double memory = any ? static_cast<double>(sizes.columns * sizes.depth * size) / kColdBytes : 0;
  Plan best = {Columns::wide, 1, 0};
  double fewest = 0;
  const auto consider = [&](const Plan& plan, double cycles) {
    if (fewest == 0 || cycles < fewest) {
      fewest = cycles;
      best = plan;
    }
  };
  for (int split_size = 0; any && split_size < kSplitSizeCount; ++split_size) {
    for (int splits = 1; splits <= kMostSplits; splits += splits < 4 ? 1 : 4) {
      const double cycles = cycles_of_split(kSplitSizes[split_size], sizes, steps, splits, processors, memory);
      if (cycles > 0) {
        consider({Columns::split, splits, split_size}, cycles);
      }
    }
  }
  const bool is_even = parts(sizes.rows, kRows) % 2 == 0;
  for (const Cost& cost : kCosts) {
    if ((cost.columns == Columns::large || cost.columns == Columns::broad) && !any) {
      continue;
    }
    const std::int64_t clusters = parts(sizes.rows, cost.down * kRows) * parts(sizes.columns, cost.across * cost.wide);
    const std::int64_t at_once = std::max(processors / (cost.down * cost.across), 1);
    for (std::int64_t splits = 1; splits <= 16 && splits * 4 <= std::max<std::int64_t>(steps, 4); splits *= 2) {
      if (cost.columns == Columns::large && splits > 1) {
        break;  // with parts of the depth they were not timed
      }
      if (cost.columns == (is_even && splits <= kBelowSplits ? Columns::beside : Columns::narrow)) {
        continue;
      }
      const double each = static_cast<double>(parts(steps, splits)) * cost.step + cost.tile;
      double cycles = kStart + cycles_with(memory, static_cast<double>(parts(clusters * splits, at_once)) * each);
      if (splits > 1) {
        cycles += kSplit + static_cast<double>(splits * 2 * sizes.rows * sizes.columns) * sizeof(float) / kSumBytes;
      }
      consider({cost.columns, static_cast<int>(splits), 0}, cycles);
    }
  }
  return best;
}

// The multiprocessors of the current GPU, 0 if it is no Hopper.
inline int hopper_processors() {
  int device = 0;
  int major = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return major == 9 ? processors : 0;
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
