[% if cuda %]
// What a block of the kernel has in shared memory and in tensor memory, and which tiles of the output it makes.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {
[% raw %]

// Four warps store, each 32 rows of a tile: warp 0 those that tensor memory has in lanes 0 to 31, and so on. One warp
// loads, and one multiplies.
constexpr int kStoringWarps = 4;
constexpr int kLoadingWarp = kStoringWarps;
constexpr int kMultiplyingWarp = kStoringWarps + 1;
constexpr int kThreads = 32 * (kStoringWarps + 2);

// A tile has kRows rows: all lanes of tensor memory. Its depth is multiplied in steps of kBytes, the widest row that
// TMA swizzles, and a step in kWays products of 16.
constexpr int kRows = 128;
constexpr int kBytes = 128;
constexpr int kDepth = kBytes / 2;
constexpr int kWays = kDepth / 16;
constexpr int kLeftBytes = kRows * kBytes;

// While the sums of a tile are stored, those of the next one are made.
constexpr int kTurns = 2;

// What a warp stores at once: 32 rows of kBytes. It fills one such part while TMA reads the other.
constexpr int kPartRows = kRows / kStoringWarps;
constexpr int kPartColumns = kBytes / 2;
constexpr int kParts = 2;

// Bytes of shared memory: all that a block can have, and what is left for steps that are loaded ahead.
constexpr int kShared = 232448;
constexpr int kBarrierBytes = 1024;
constexpr int kLoaded = kShared - kStoringWarps * kParts * kPartRows * kBytes - kBarrierBytes;

// Tiles that run at the same time share rows of a and columns of b in the L2 cache: kGroup tiles down, then across.
constexpr int kGroup = 16;

template <int kWide>
struct Shape {
  static constexpr int kColumns = kWide;
  static constexpr int kStageBytes = kLeftBytes + kWide * kBytes;
  static constexpr int kStages = kLoaded / kStageBytes;
  static constexpr int kTensorColumns = kTurns * kWide;
};

using Wide = Shape<256>;
using Narrow = Shape<128>;

template <class Shape>
struct Memory {
  alignas(1024) unsigned char stages[Shape::kStages][Shape::kStageBytes];
  alignas(1024) unsigned char results[kStoringWarps][kParts][kPartRows * kBytes];
  // A stage is loaded, or multiplied; sums are made, or fetched.
  std::uint64_t loaded[Shape::kStages];
  std::uint64_t multiplied[Shape::kStages];
  std::uint64_t made[kTurns];
  std::uint64_t fetched[kTurns];
  unsigned tensor;
};
[% endraw %]
[% include "projects/parts/turn.cpp" %]
[% raw %]
struct Tile {
  int row;
  int column;
};

// All tiles; a block makes each one that is a whole number of grids after its first.
struct Tiles {
  int down;
  int across;
  int steps;

  __device__ int count() const { return down * across; }

  __device__ Tile tile(int index, int columns) const {
    const int group = index / (kGroup * across);
    const int within = index % (kGroup * across);
    const int high = min(kGroup, down - group * kGroup);
    return {(group * kGroup + within % high) * kRows, within / high * columns};
  }
};

// The output: TMA stores it where it can, and the threads elsewhere.
struct Output {
  void* first;
  int rows;
  int columns;
  bool by_tma;
};
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
