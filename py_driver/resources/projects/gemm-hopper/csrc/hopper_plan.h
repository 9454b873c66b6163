[% if cuda %]
// How a product is made on a Hopper GPU: see `plan_for`.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "[[ module ]].h"
#include "hopper_tiles.h"
#include "matrix_copies.h"

namespace [[ module ]]_impl {
[% raw %]

// Tiles of 128 columns and more are in pairs below each other, those of 64 in pairs beside each other.
using Wide = Shape<256, 2, 1>;
using Broad = Shape<192, 2, 1>;
using Middle = Shape<128, 2, 1>;
using Narrow = Shape<64, 1, 2>;

enum class Columns { wide, broad, middle, narrow };

// How the product is made: the shape of tiles, and in how many parts the depth is split.
struct Plan {
  Columns columns;
  int splits;
};

// The plan with the fewest cycles, as counted here: a multiprocessor needs so many for a step of a tile's depth, and
// some for each tile; tiles come in rounds of one for each multiprocessor. Splits cost a second kernel, and memory.
// `size` is of an element of a and b, in bytes; `any` says whether tiles of 192 columns are there too.
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
                             {Columns::broad, Broad::kColumns, Broad::kDown, Broad::kAcross, 800, 850},
                             {Columns::middle, Middle::kColumns, Middle::kDown, Middle::kAcross, 575, 700},
                             {Columns::narrow, Narrow::kColumns, Narrow::kDown, Narrow::kAcross, 400, 600}};
  constexpr double kStart = 3000;
  constexpr double kSplit = 6000;
  constexpr double kSumBytes = 1500;  // for each cycle
  const std::int64_t steps = parts(sizes.depth * size, kBytes);
  Plan best = {Columns::wide, 1};
  double fewest = 0;
  for (const Cost& cost : kCosts) {
    if (cost.columns == Columns::broad && !any) {
      continue;
    }
    const std::int64_t clusters = parts(sizes.rows, cost.down * kRows) * parts(sizes.columns, cost.across * cost.wide);
    const std::int64_t at_once = std::max(processors / (cost.down * cost.across), 1);
    for (std::int64_t splits = 1; splits <= 16 && splits * 4 <= std::max<std::int64_t>(steps, 4); splits *= 2) {
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
