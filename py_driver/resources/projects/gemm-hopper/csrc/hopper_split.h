[% if cuda %]
// The kernel for products of some rows, whose depth the blocks of a cluster share: hopper.cu launches it.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "[[ module ]].h"
#include "hopper_few.h"
#include "hopper_kernel.h"
#include "hopper_memory.h"
#include "hopper_plan.h"
#include "hopper_ptx.h"
#include "hopper_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

// As in hopper_few.h a block computes the transposed product for 128 columns of b, but for up to 256 rows of a. Blocks
// with the same part of the depth load together, each a share for all of them: `kDown` tiles below each other have the
// same columns of b, and `kAcross` beside each other have the same rows of a.
template <int kRowsOfTile, int kBelow, int kBeside>
struct SplitShape {
  static constexpr int kHigh = kRowsOfTile;
  static constexpr int kDown = kBelow;
  static constexpr int kAcross = kBeside;
  static constexpr int kBlocks = kBelow * kBeside;
  static constexpr int kStageBytes = (kFewColumns + kHigh) * kBytes;
  static constexpr int kStages = (kShared - kFewOthers) / kStageBytes;
  static_assert(kHigh * kFewPitch * 4 <= kStages * kStageBytes, "the sums lie where the stages were");
  static_assert(kHigh / kBeside % 8 == 0, "TMA swizzles eight rows");
};

template <class Shape>
struct SplitMemory {
  alignas(1024) unsigned char stages[Shape::kStages][Shape::kStageBytes];
  std::uint64_t full[Shape::kStages];
  std::uint64_t empty[Shape::kStages];
};

// Where a block is: of the output, of the depth, and of its cluster.
struct SplitPlace {
  int row;
  int column;
  int first;
  int last;
  int split;
  int down;
  int across;
};

template <typename T, bool kByColumns, class Shape>
__device__ void produce_split(SplitMemory<Shape>& memory, const CUtensorMap& a, const CUtensorMap& b,
                              const SplitPlace& place) {
  constexpr int kDepth = kBytes / sizeof(T);
  constexpr int kHigh = Shape::kHigh / Shape::kAcross;
  constexpr int kWide = kFewColumns / Shape::kDown;
  const int others = place.split * Shape::kBlocks;
  const auto load_rows = [&](unsigned char* to, int x, int y, std::uint64_t& full) {
    if constexpr (Shape::kAcross > 1) {
      load_for(((1 << Shape::kAcross) - 1) << (others + place.down * Shape::kAcross), to, a, x, y, full);
    } else {
      load(to, a, x, y, full);
    }
  };
  const auto load_columns = [&](unsigned char* to, int x, int y, std::uint64_t& full) {
    if constexpr (Shape::kDown > 1) {
      static_assert(Shape::kDown == 2, "two blocks below each other");
      load_for((1 | 1 << Shape::kAcross) << (others + place.across), to, b, x, y, full);
    } else {
      load(to, b, x, y, full);
    }
  };
  Turn<Shape::kStages> turn;
  for (int step = place.first; step < place.last; ++step, turn.next()) {
    unsigned char* const of_b = memory.stages[turn.stage];
    unsigned char* const of_a = of_b + kFewColumns * kBytes;
    std::uint64_t& full = memory.full[turn.stage];
    wait(memory.empty[turn.stage], turn.phase ^ 1);
    arrive_and_expect(full, Shape::kStageBytes);
    if constexpr (kByColumns) {
      load_columns(of_b + place.down * kWide * kBytes, step * kDepth, place.column + place.down * kWide, full);
    } else {
      for (int part = place.down; part < kFewColumns / kDepth; part += Shape::kDown) {
        load_columns(of_b + part * kDepth * kBytes, place.column + part * kDepth, step * kDepth, full);
      }
    }
    load_rows(of_a + place.across * kHigh * kBytes, step * kDepth, place.row + place.across * kHigh, full);
  }
}

template <typename T, bool kByColumns, class Shape>
__device__ void consume_split(SplitMemory<Shape>& memory, SumOf<T> (&sums)[Shape::kHigh / 2],
                              const SplitPlace& place) {
  const int lane = threadIdx.x % 32;
  const int warpgroup = threadIdx.x / kWarpgroup;
  const auto release = [&](int stage) {
    if (lane < Shape::kBlocks) {
      arrive(memory.empty[stage], place.split * Shape::kBlocks + lane);
    }
  };
  Turn<Shape::kStages> turn;
  int before = 0;
#pragma unroll 1
  for (int step = place.first; step < place.last; ++step, turn.next()) {
    const unsigned char* const of_b = memory.stages[turn.stage] + warpgroup * 64 * kBytes;
    const unsigned char* const of_a = memory.stages[turn.stage] + kFewColumns * kBytes;
    wait(memory.full[turn.stage], turn.phase);
    FewProduct<T, kByColumns>::start(sums, of_b, of_a, step > place.first);
    // This one runs on; the step before has ended, and its stage can be loaded again.
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (step > place.first) {
      release(before);
    }
    before = turn.stage;
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// The sums of all parts of the depth, in their order: each block adds up and stores a share of the tile. It reads some
// numbers ahead, since they come from the memory of other blocks.
template <int kSplits, class Shape, typename Out, typename Sum>
__device__ void join_split(Out* out, const Sum* sums, int rows, int columns, const SplitPlace& place) {
  constexpr int kAtOnce = 32 * kFewWarps * kFour;
  constexpr int kStep = kSplits * kAtOnce;
  constexpr int kAhead = kSplits < 4 ? 4 : 8 / kSplits;
  const bool aligned = in_fours(out, columns);
  const int own = place.down * Shape::kAcross + place.across;
  const int count = min(rows - place.row, Shape::kHigh) * kFewColumns;
  for (int first = place.split * kAtOnce + static_cast<int>(threadIdx.x) * kFour; first < count;
       first += kStep * kAhead) {
    Sum parts[kAhead][kSplits][kFour] = {};
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int i = first + ahead * kStep;
      const Sum* const from = sums + i / kFewColumns * kFewPitch + i % kFewColumns;
#pragma unroll
      for (int split = 0; split < kSplits; ++split) {
        if (i < count) {
          load_from(parts[ahead][split], from, split * Shape::kBlocks + own);
        }
      }
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int i = first + ahead * kStep;
      Sum(&all)[kFour] = parts[ahead][0];
#pragma unroll
      for (int split = 1; split < kSplits; ++split) {
#pragma unroll
        for (int j = 0; j < kFour; ++j) {
          all[j] += parts[ahead][split][j];
        }
      }
      if (i < count) {
        const int column = place.column + i % kFewColumns;
        store_four(out + (place.row + i / kFewColumns) * static_cast<std::int64_t>(columns) + column, all,
                   columns - column, aligned);
      }
    }
  }
}

template <typename T, bool kByColumns, typename Out, class Shape>
__global__ void __launch_bounds__(kFewThreads, 1)
    multiply_split(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, Out* __restrict__ out,
                   int rows, int columns, int steps) {
  using Sum = SumOf<T>;
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<SplitMemory<Shape>*>(bytes);
  auto* const results = reinterpret_cast<Sum*>(bytes);
  const int blocks = blocks_of_cluster();
  const int splits = blocks / Shape::kBlocks;
  const int rank = rank_in_cluster();
  const int cluster = static_cast<int>(blockIdx.x) / blocks;
  const int tiles = (rows + Shape::kDown * Shape::kHigh - 1) / (Shape::kDown * Shape::kHigh);
  SplitPlace place;
  place.split = rank / Shape::kBlocks;
  place.down = rank % Shape::kBlocks / Shape::kAcross;
  place.across = rank % Shape::kAcross;
  place.row = (cluster % tiles * Shape::kDown + place.down) * Shape::kHigh;
  place.column = (cluster / tiles * Shape::kAcross + place.across) * kFewColumns;
  place.first = place.split * steps / splits;
  place.last = (place.split + 1) * steps / splits;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (warp == kFewWarps && lane == 0) {
    prefetch(a);
    prefetch(b);
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], Shape::kBlocks * kFewWarps);
    }
    publish();
  }
  synchronize_cluster();
  if (warp == kFewWarps) {
    if (lane == 0) {
      produce_split<T, kByColumns>(memory, a, b, place);
    }
    __syncwarp();
  } else {
    Sum sums[Shape::kHigh / 2] = {};
    consume_split<T, kByColumns>(memory, sums, place);
    // Both warpgroups have read all that was loaded, and the sums can lie there.
    synchronize_consumers();
#pragma unroll
    for (int i = 0; i < Shape::kHigh / 2; ++i) {
      results[(lane % 4 * 2 + i % 2 + i / 4 * 8) * kFewPitch + warp * 16 + lane / 4 + i / 2 % 2 * 8] = sums[i];
    }
  }
  share_in_cluster();
  if (warp < kFewWarps) {
    switch (splits) {
      case 1:
        join_split<1, Shape>(out, results, rows, columns, place);
        break;
      case 2:
        join_split<2, Shape>(out, results, rows, columns, place);
        break;
      case 4:
        join_split<4, Shape>(out, results, rows, columns, place);
        break;
      default:
        join_split<8, Shape>(out, results, rows, columns, place);
    }
  }
  // The others have read what is in the memory of this block.
  share_in_cluster();
}

template <typename T, bool kByColumns, typename Out, class Shape>
int launch_split(const Matrix& a, const Matrix& b, const Sizes& sizes, void* out, int splits, cudaStream_t stream) {
  CUtensorMap left;
  CUtensorMap right;
  if (!encode<T>(left, a, Shape::kHigh / Shape::kAcross) ||
      !encode<T>(right, b, kByColumns ? kFewColumns / Shape::kDown : kBytes / static_cast<int>(sizeof(T)))) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_split<T, kByColumns, Out, Shape>;
  constexpr int kMemory = sizeof(SplitMemory<Shape>);
  static_assert(kMemory <= kShared, "a block cannot have so much");
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const int blocks = splits * Shape::kBlocks;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(parts(sizes.columns, Shape::kAcross * kFewColumns) *
                                              parts(sizes.rows, Shape::kDown * Shape::kHigh) * blocks));
  config.blockDim = dim3(kFewThreads);
  config.dynamicSmemBytes = kMemory;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, function, left, right, static_cast<Out*>(out), static_cast<int>(sizes.rows),
                            static_cast<int>(sizes.columns), static_cast<int>(parts(sizes.depth * sizeof(T), kBytes)));
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
