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

// As in hopper_few.h a block computes the transposed product for 128 columns of b, but for up to 208 rows of a. Up to
// eight blocks of a cluster share the depth. One or two tiles below each other have the same part of it: of two, each
// block loads half of their columns of b for both.
template <int kRowsOfTile, int kBelow>
struct SplitShape {
  static constexpr int kHigh = kRowsOfTile;
  static constexpr int kDown = kBelow;
  static constexpr int kStageBytes = (kFewColumns + kHigh) * kBytes;
  static constexpr int kStages = (kShared - kFewOthers) / kStageBytes;
  static_assert(kHigh * kFewColumns * 4 <= kStages * kStageBytes, "the sums lie where the stages were");
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
};

template <typename T, bool kByColumns, class Shape>
__device__ void produce_split(SplitMemory<Shape>& memory, const CUtensorMap& a, const CUtensorMap& b,
                              const SplitPlace& place) {
  constexpr int kDepth = kBytes / sizeof(T);
  constexpr int kWide = kFewColumns / Shape::kDown;
  const auto load_columns = [&](unsigned char* to, int x, int y, std::uint64_t& full) {
    if constexpr (Shape::kDown > 1) {
      load_for(((1 << Shape::kDown) - 1) << place.split * Shape::kDown, to, b, x, y, full);
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
    load(of_a, a, step * kDepth, place.row, full);
  }
}

template <typename T, bool kByColumns, class Shape>
__device__ void consume_split(SplitMemory<Shape>& memory, SumOf<T> (&sums)[Shape::kHigh / 2],
                              const SplitPlace& place) {
  const int lane = threadIdx.x % 32;
  const int warpgroup = threadIdx.x / kWarpgroup;
  const auto release = [&](int stage) {
    if (lane < Shape::kDown) {
      arrive(memory.empty[stage], place.split * Shape::kDown + lane);
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

// Transposes eight by eight numbers of 16 bits: a thread has two beside each other.
inline __device__ unsigned transposed(unsigned pair) {
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(pair));
  return pair;
}

// Stores what WGMMA leaves in four registers of each thread: the sums of eight rows of the output, and of 16 columns.
// `in_pairs` says whether two numbers beside each other can be stored at once.
template <typename Out, typename Sum>
__device__ void store_eight(Out* out, const Sum (&sums)[kFour], int rows, int columns, int row, int column,
                            bool in_pairs) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(Out) == 2) {
    if (in_pairs) {
      Out* const to = out + (row + lane / 4) * static_cast<std::int64_t>(columns) + column + lane % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto pair = pair_of(Out(), sums[2 * half], sums[2 * half + 1]);
        const unsigned bits = transposed(reinterpret_cast<const unsigned&>(pair));
        if (row + lane / 4 < rows && column + half * 8 + lane % 4 * 2 < columns) {
          *reinterpret_cast<unsigned*>(to + half * 8) = bits;
        }
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    const int at_row = row + lane % 4 * 2 + i % 2;
    const int at_column = column + lane / 4 + i / 2 * 8;
    if (at_row < rows && at_column < columns) {
      out[at_row * static_cast<std::int64_t>(columns) + at_column] = static_cast<Out>(sums[i]);
    }
  }
}

// The sums of all parts of the depth, in their order: each block adds up and stores every kSplits-th eight rows of the
// tile. It reads some of them ahead, since they come from the memory of other blocks.
template <int kSplits, class Shape, typename Out, typename Sum>
__device__ void join_split(Out* out, const Sum* results, int rows, int columns, const SplitPlace& place,
                           bool in_pairs) {
  constexpr int kEights = Shape::kHigh / 8;
  constexpr int kOwn = (kEights + kSplits - 1) / kSplits;
  constexpr int kRounds = (kOwn * kSplits + 15) / 16;  // of about as many, for which 64 registers are enough
  constexpr int kAhead = (kOwn + kRounds - 1) / kRounds;
  const int column = place.column + static_cast<int>(threadIdx.x) / 32 * 16;
  const int end = min(kEights, (rows - place.row + 7) / 8);
#pragma unroll 1
  for (int first = place.split; first < end; first += kSplits * kAhead) {
    Sum parts[kAhead][kSplits][kFour];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int eight = first + ahead * kSplits;
#pragma unroll
      for (int split = 0; split < kSplits; ++split) {
        if (eight < end) {
          load_from(parts[ahead][split], results + (eight * 32 * kFewWarps + threadIdx.x) * kFour,
                    split * Shape::kDown + place.down);
        }
      }
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int eight = first + ahead * kSplits;
#pragma unroll
      for (int split = 1; split < kSplits; ++split) {
#pragma unroll
        for (int j = 0; j < kFour; ++j) {
          parts[ahead][0][j] += parts[ahead][split][j];
        }
      }
      if (eight < end) {
        store_eight(out, parts[ahead][0], rows, columns, place.row + eight * 8, column, in_pairs);
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
  const int splits = blocks / Shape::kDown;
  const int rank = rank_in_cluster();
  const int cluster = static_cast<int>(blockIdx.x) / blocks;
  const int tiles = (rows + Shape::kDown * Shape::kHigh - 1) / (Shape::kDown * Shape::kHigh);
  SplitPlace place;
  place.split = rank / Shape::kDown;
  place.down = rank % Shape::kDown;
  place.row = (cluster % tiles * Shape::kDown + place.down) * Shape::kHigh;
  place.column = cluster / tiles * kFewColumns;
  place.first = place.split * steps / splits;
  place.last = (place.split + 1) * steps / splits;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (warp == kFewWarps && lane == 0) {
    prefetch(a);
    prefetch(b);
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], Shape::kDown * kFewWarps);
    }
    publish();
  }
  if constexpr (Shape::kDown > 1) {
    synchronize_cluster();
  } else {
    __syncthreads();
  }
  if (warp == kFewWarps) {
    if (lane == 0) {
      produce_split<T, kByColumns>(memory, a, b, place);
    }
    __syncwarp();
    if (splits > 1) {
      share_in_cluster();
    }
  } else {
    Sum sums[Shape::kHigh / 2] = {};
    consume_split<T, kByColumns>(memory, sums, place);
    const bool in_pairs = columns % 2 == 0 && reinterpret_cast<std::uintptr_t>(out) % (2 * sizeof(Out)) == 0;
    if (splits == 1) {
#pragma unroll
      for (int i = 0; i < Shape::kHigh / 8; ++i) {
        const Sum all[kFour] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
        store_eight(out, all, rows, columns, place.row + i * 8, place.column + warp * 16, in_pairs);
      }
    } else {
      // Both warpgroups have read all that was loaded, and the sums can lie there.
      synchronize_consumers();
      struct alignas(kFour * sizeof(Sum)) Four {
        Sum of[kFour];
      };
#pragma unroll
      for (int i = 0; i < Shape::kHigh / 8; ++i) {
        reinterpret_cast<Four*>(results)[i * 32 * kFewWarps + threadIdx.x] = {sums[4 * i], sums[4 * i + 1],
                                                                              sums[4 * i + 2], sums[4 * i + 3]};
      }
      share_in_cluster();
      switch (splits) {
        case 2:
          join_split<2, Shape>(out, results, rows, columns, place, in_pairs);
          break;
        case 3:
          join_split<3, Shape>(out, results, rows, columns, place, in_pairs);
          break;
        case 4:
          join_split<4, Shape>(out, results, rows, columns, place, in_pairs);
          break;
        default:
          join_split<kMostSplits, Shape>(out, results, rows, columns, place, in_pairs);
      }
    }
  }
  // The others have read what is in the memory of this block, and have told it what they have read before.
  if (blocks > 1) {
    share_in_cluster();
  }
}

template <typename T, bool kByColumns, typename Out, class Shape>
int launch_split(const Matrix& a, const Matrix& b, const Sizes& sizes, void* out, int splits, cudaStream_t stream) {
  CUtensorMap left;
  CUtensorMap right;
  if (!encode<T>(left, a, Shape::kHigh) ||
      !encode<T>(right, b, kByColumns ? kFewColumns / Shape::kDown : kBytes / static_cast<int>(sizeof(T)))) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_split<T, kByColumns, Out, Shape>;
  constexpr int kMemory = sizeof(SplitMemory<Shape>);
  static_assert(kMemory <= kShared, "a block cannot have so much");
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const int blocks = splits * Shape::kDown;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(parts(sizes.columns, kFewColumns) *
                                              parts(sizes.rows, Shape::kDown * Shape::kHigh) * blocks));
  config.blockDim = dim3(kFewThreads);
  config.dynamicSmemBytes = kMemory;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, function, left, right, static_cast<Out*>(out), static_cast<int>(sizes.rows),
                            static_cast<int>(sizes.columns), static_cast<int>(parts(sizes.depth * sizeof(T), kBytes)));
}

// The same for the size of a plan.
template <typename T, bool kByColumns, typename Out, int kSize = 0>
int run_split(const Matrix& a, const Matrix& b, const Sizes& sizes, void* out, const Plan& plan, cudaStream_t stream) {
  if constexpr (kSize + 1 < kSplitSizeCount) {
    if (plan.size != kSize) {
      return run_split<T, kByColumns, Out, kSize + 1>(a, b, sizes, out, plan, stream);
    }
  }
  using Picked = SplitShape<kSplitSizes[kSize].high, kSplitSizes[kSize].down>;
  return launch_split<T, kByColumns, Out, Picked>(a, b, sizes, out, plan.splits, stream);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
