[% if cuda %]
// How a product is made on a Hopper GPU: see `plan_for`.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "[[ module ]].h"
#include "hopper_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

// Tiles are in pairs below each other, but those of 64 columns also beside each other: where the output has an odd
// number of tiles below each other, or its depth more than kBelowSplits parts. Pairs below were up to 18 % slower with
// more parts, and up to 16 % faster with fewer, on an H200.
using Wide = Shape<256, 2, 1>;
using Square = Shape<256, 1, 1>;
using SquareL = Shape<224, 1, 1>;
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

enum class Columns { wide, large, broad, middle, narrow, beside, few, square, squarel };

// How the product is made: the shape of tiles, and in how many parts the depth is split.
struct Plan {
  Columns columns;
  int splits;
};

inline std::int64_t parts(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

inline std::int64_t rounded(std::int64_t all, std::int64_t each) { return parts(all, each) * each; }

// How many blocks share the depth of a tile of few rows: as many as there are multiprocessors for, but each has two
// steps.
inline int few_splits(std::int64_t tiles, std::int64_t steps, int processors) {
  int splits = 1;
  while (splits < kFewSplits && tiles * splits * 2 <= processors && splits * 4 <= steps) {
    splits *= 2;
  }
  return splits;
}

// The plan with the fewest cycles, as counted here: a multiprocessor needs so many for a step of a tile's depth, and
// some for each tile; tiles come in rounds of one for each multiprocessor. Splits cost a second kernel, and memory.
// `size` is of an element of a and b, in bytes; `any` says whether tiles of 192 and 224 columns are there too.
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
                             {Columns::large, Large::kColumns, Large::kDown, Large::kAcross, 900, 925},
                             {Columns::broad, Broad::kColumns, Broad::kDown, Broad::kAcross, 800, 850},
                             {Columns::middle, Middle::kColumns, Middle::kDown, Middle::kAcross, 575, 700},
                             {Columns::narrow, Narrow::kColumns, Narrow::kDown, Narrow::kAcross, 400, 600},
                             {Columns::beside, Beside::kColumns, Beside::kDown, Beside::kAcross, 400, 600}};
  constexpr double kStart = 3000;
  constexpr double kSplit = 6000;
  constexpr double kSumBytes = 1500;  // for each cycle
  const std::int64_t steps = parts(sizes.depth * size, kBytes);
  if (sizes.rows <= kFewRows && sizes.columns * sizes.depth * size >= kFewBytes) {
    return {Columns::few, few_splits(parts(sizes.columns, kFewColumns), steps, processors)};
  }
  const bool is_even = parts(sizes.rows, kRows) % 2 == 0;
  Plan best = {Columns::wide, 1};
  double fewest = 0;
  for (const Cost& cost : kCosts) {
    if ((cost.columns == Columns::large || cost.columns == Columns::broad) && !any) {
      continue;
    }
    const std::int64_t clusters = parts(sizes.rows, cost.down * kRows) * parts(sizes.columns, cost.across * cost.wide);
    const std::int64_t at_once = std::max(processors / (cost.down * cost.across), 1);
    for (std::int64_t splits = 1; splits <= 16 && splits * 4 <= std::max<std::int64_t>(steps, 4); splits *= 2) {
      if (cost.columns == Columns::large && splits > 1) {
        break;
      }
      if (cost.columns == (is_even && splits <= kBelowSplits ? Columns::beside : Columns::narrow)) {
        continue;
      }
      double cycles = static_cast<double>(parts(clusters * splits, at_once)) *
                          (static_cast<double>(parts(steps, splits)) * cost.step + cost.tile) + kStart;
      if (splits > 1) {
        cycles += kSplit + static_cast<double>(splits * 2 * sizes.rows * sizes.columns) * sizeof(float) / kSumBytes;
      }
      if (fewest == 0 || cycles < fewest) {
        fewest = cycles;
        best = {cost.columns, static_cast<int>(splits)};
      }
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
