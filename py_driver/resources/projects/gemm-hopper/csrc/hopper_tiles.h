[% if cuda %]
// What a block of the kernel has in shared memory, what it does in which order, how it is loaded, and what it stores.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "hopper_ptx.h"

namespace [[ module ]]_impl {
[% raw %]

// A block has one warpgroup that loads and two that multiply. Together they make kRows rows of the output at a time, in
// steps of kBytes of the depth: the widest row that TMA swizzles.
constexpr int kConsumers = 2;
constexpr int kWarpgroup = 128;
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kWarps = kConsumers * kWarpgroup / 32;  // that multiply
constexpr int kRows = 64 * kConsumers;
constexpr int kBytes = 128;
constexpr int kLeftBytes = kRows * kBytes;

// What a warp stores at once: 16 rows of kBytes. It fills one such part while TMA reads the other.
constexpr int kPartRows = 16;
constexpr int kParts = 2;

// Bytes of shared memory: all that a block can have, and what is left for steps that are loaded ahead.
constexpr int kShared = 232448;
constexpr int kLoaded = kShared - kWarps * kParts * kPartRows * kBytes;

// Tiles that run at the same time share rows of a and columns of b in the L2 cache: kGroup tiles down, then across.
constexpr int kGroup = 16;

// The shape of a tile, and of the cluster of blocks that load it: blocks below each other share columns of b, and
// blocks beside each other share rows of a. Each loads its part of what they share, for all of them. `kMore` is what a
// step needs beside the matrices, in bytes.
template <int kWide, int kBelow, int kBeside, int kMore = 0>
struct Shape {
  static constexpr int kColumns = kWide;
  static constexpr int kDown = kBelow;
  static constexpr int kAcross = kBeside;
  static constexpr int kBlocks = kBelow * kBeside;
  static constexpr int kSums = 64 * kWide / kWarpgroup;  // of a thread
  // Unless b lies column by column, it comes in boxes of 64 columns: the last one may have more than the tile.
  static constexpr int kStageBytes = kLeftBytes + (kWide + 63) / 64 * 64 * kBytes;
  static constexpr int kStages = kLoaded / (kStageBytes + kMore + 2 * static_cast<int>(sizeof(std::uint64_t)));
};

struct Nothing {};

template <class Shape, class More = Nothing>
struct Memory {
  alignas(1024) unsigned char stages[Shape::kStages][Shape::kStageBytes];
  alignas(1024) unsigned char results[kWarps][kParts][kPartRows * kBytes];
  std::uint64_t full[Shape::kStages];
  std::uint64_t empty[Shape::kStages];
  More more;
};

inline __device__ __half2 pair_of(__half, float x, float y) { return __floats2half2_rn(x, y); }
inline __device__ __nv_bfloat162 pair_of(__nv_bfloat16, float x, float y) { return __floats2bfloat162_rn(x, y); }
inline __device__ float2 pair_of(float, float x, float y) { return make_float2(x, y); }
inline __device__ int2 pair_of(int, int x, int y) { return make_int2(x, y); }
[% endraw %]
[% include "projects/parts/turn.cpp" %]
[% raw %]
// A cluster's share of the work: a tile for each of its blocks, and some steps of its depth.
struct Job {
  int down;
  int across;
  int split;
  int first;
  int last;
};

// All jobs: tiles as clusters count them, each with its depth in `splits` parts of about as many steps. There are at
// most 2^24 steps and 16 parts.
struct Jobs {
  int down;
  int across;
  int steps;
  int splits;

  __device__ int count() const { return down * across * splits; }

  __device__ Job job(int index, int high_group) const {
    const int tiles = down * across;
    const int split = index / tiles;
    const int tile = index % tiles;
    const int group = tile / (high_group * across);
    const int within = tile % (high_group * across);
    const int high = min(high_group, down - group * high_group);
    return {group * high_group + within % high, within / high, split, split * steps / splits,
            (split + 1) * steps / splits};
  }
};

// The output: TMA stores it where it can, and the threads elsewhere. The sums of each split follow those of the one
// before, `split_rows` further down.
struct Output {
  void* first;
  int rows;
  int columns;
  int split_rows;
  bool by_tma;
};

template <typename T, bool kByColumns, class Shape, class More>
__device__ void produce(Memory<Shape, More>& memory, const CUtensorMap& a, const CUtensorMap& b, const Jobs& jobs) {
  constexpr int kDepth = kBytes / sizeof(T);
  constexpr int kLeftRows = kRows / Shape::kAcross;
  constexpr int kRightColumns = Shape::kColumns / Shape::kDown;
  constexpr int kLoadedBytes = kByColumns ? kLeftBytes + Shape::kColumns * kBytes : Shape::kStageBytes;
  const int rank = rank_in_cluster();
  const int down = rank / Shape::kAcross;
  const int across = rank % Shape::kAcross;
  const auto load_left = [&](void* to, int x, int y, std::uint64_t& full) {
    if constexpr (Shape::kAcross > 1) {
      load_for(((1 << Shape::kAcross) - 1) << down * Shape::kAcross, to, a, x, y, full);
    } else {
      load(to, a, x, y, full);
    }
  };
  const auto load_right = [&](void* to, int x, int y, std::uint64_t& full) {
    if constexpr (Shape::kDown > 1) {
      static_assert(Shape::kDown == 2, "two blocks below each other");
      load_for((1 | 1 << Shape::kAcross) << across, to, b, x, y, full);
    } else {
      load(to, b, x, y, full);
    }
  };
  Turn<Shape::kStages> turn;
  for (int index = blockIdx.x / Shape::kBlocks; index < jobs.count(); index += gridDim.x / Shape::kBlocks) {
    const Job job = jobs.job(index, kGroup / Shape::kDown);
    const int row = (job.down * Shape::kDown + down) * kRows + across * kLeftRows;
    const int column = (job.across * Shape::kAcross + across) * Shape::kColumns;
    for (int step = job.first; step < job.last; ++step, turn.next()) {
      unsigned char* const left = memory.stages[turn.stage] + across * kLeftRows * kBytes;
      unsigned char* const right = memory.stages[turn.stage] + kLeftBytes;
      std::uint64_t& full = memory.full[turn.stage];
      // The first round finds all stages empty: the phase before the first one counts as ended.
      wait(memory.empty[turn.stage], turn.phase ^ 1);
      arrive_and_expect(full, kLoadedBytes);
      load_left(left, step * kDepth, row, full);
      if constexpr (kByColumns) {
        load_right(right + down * kRightColumns * kBytes, step * kDepth, column + down * kRightColumns, full);
      } else {
        for (int part = down; part * kDepth < Shape::kColumns; part += Shape::kDown) {
          load_right(right + part * kDepth * kBytes, column + part * kDepth, step * kDepth, full);
        }
      }
    }
  }
  // The block stays until all others have told it that they are done, since its barriers go with it.
  for (int stage = 0; stage < Shape::kStages; ++stage, turn.next()) {
    wait(memory.empty[turn.stage], turn.phase ^ 1);
  }
}

// Eight columns after the other, a quad of threads has two rows of the sums, and each thread a pair in both. They go
// through shared memory, as TMA swizzles it, so that whole lines are stored.
template <typename Out, typename Sum, int kSums>
__device__ void put(unsigned char* results, const CUtensorMap& map, const Output& output, const Sum (&sums)[kSums],
                    int split, int row, int column) {
  constexpr int kWide = kBytes / sizeof(Out);
  constexpr int kEach = kPartRows * kWide / 32;
  constexpr int kFull = kSums / kEach;  // a part with fewer columns may follow, which the threads store
  static_assert(kParts == 2, "an odd number of parts ends where it began");
  const int lane = threadIdx.x % 32;
  const std::int64_t skipped = static_cast<std::int64_t>(split) * output.split_rows;
#pragma unroll
  for (int part = 0; part * kEach < kSums; ++part, column += kWide) {
    unsigned char* const result = results + part % kParts * kPartRows * kBytes;
    if (output.by_tma && lane == 0) {
      // With an odd number of parts the first one lies where the last one of the tile before does.
      if (kFull % kParts != 0 && part == 0) {
        wait_for_stores<0>();
      } else {
        wait_for_stores<kParts - 1>();
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kEach && part * kEach + i < kSums; i += 2) {
      const int at_row = lane / 4 + i / 2 % 2 * 8;
      const int byte = (lane % 4 * 2 + i / 4 * 8) * static_cast<int>(sizeof(Out));
      unsigned char* const to = result + at_row * kBytes + (byte / 16 ^ at_row % 8) * 16 + byte % 16;
      const auto pair = pair_of(Out(), sums[part * kEach + i], sums[part * kEach + i + 1]);
      *reinterpret_cast<std::remove_const_t<decltype(pair)>*>(to) = pair;
    }
    const bool by_tma = output.by_tma && part < kFull;
    if (by_tma) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
    if (by_tma) {
      if (lane == 0) {
        store(map, column, static_cast<int>(skipped) + row, result);
      }
      continue;
    }
    const int end = part < kFull ? kWide : kSums % kEach * 32 / kPartRows;
#pragma unroll 1
    for (int at_row = 0; at_row < kPartRows && row + at_row < output.rows; ++at_row) {
      Out* const to = static_cast<Out*>(output.first) + (row + at_row) * static_cast<std::int64_t>(output.columns);
#pragma unroll
      for (int at_column = lane; at_column < kWide; at_column += 32) {
        const int byte = at_column * static_cast<int>(sizeof(Out));
        if (at_column < end && column + at_column < output.columns) {
          to[column + at_column] = *reinterpret_cast<const Out*>(result + at_row * kBytes +
                                                                 (byte / 16 ^ at_row % 8) * 16 + byte % 16);
        }
      }
    }
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
