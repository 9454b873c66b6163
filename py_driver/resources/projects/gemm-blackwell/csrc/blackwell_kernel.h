[% if cuda %]
// The kernel that multiplies on a GPU of capability 10.0, for blackwell.cu.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "blackwell_ptx.h"
#include "blackwell_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

inline __device__ unsigned pair_of(__half, float x, float y) {
  const __half2 pair = __floats2half2_rn(x, y);
  return reinterpret_cast<const unsigned&>(pair);
}

inline __device__ unsigned pair_of(__nv_bfloat16, float x, float y) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<const unsigned&>(pair);
}

// One thread loads the steps of all tiles of the block, as many ahead as there are stages.
template <bool kByColumns, class Shape>
__device__ void produce(Memory<Shape>& memory, const CUtensorMap& a, const CUtensorMap& b, const Tiles& tiles) {
  Turn<Shape::kStages> turn;
  for (int index = blockIdx.x; index < tiles.count(); index += gridDim.x) {
    const Tile tile = tiles.tile(index, Shape::kColumns);
    for (int step = 0; step < tiles.steps; ++step, turn.next()) {
      unsigned char* const left = memory.stages[turn.stage];
      unsigned char* const right = left + kLeftBytes;
      std::uint64_t& loaded = memory.loaded[turn.stage];
      // The first round finds all stages empty: the phase before the first one counts as ended.
      wait(memory.multiplied[turn.stage], turn.phase ^ 1);
      arrive_and_expect(loaded, Shape::kStageBytes);
      load(left, a, step * kDepth, tile.row, loaded);
      if constexpr (kByColumns) {
        load(right, b, step * kDepth, tile.column, loaded);
      } else {
        for (int part = 0; part < Shape::kColumns / kPartColumns; ++part) {
          load(right + part * kDepth * kBytes, b, tile.column + part * kPartColumns, step * kDepth, loaded);
        }
      }
    }
  }
  // The block stays until the last products have arrived at its barriers.
  for (int stage = 0; stage < Shape::kStages; ++stage, turn.next()) {
    wait(memory.multiplied[turn.stage], turn.phase ^ 1);
  }
}

// One thread asks for all products of the block.
template <typename T, bool kByColumns, class Shape>
__device__ void multiply_all(Memory<Shape>& memory, const Tiles& tiles, unsigned tensor) {
  Turn<Shape::kStages> turn;
  Turn<kTurns> sums;
  for (int index = blockIdx.x; index < tiles.count(); index += gridDim.x, sums.next()) {
    const unsigned to = tensor + sums.stage * Shape::kColumns;
    wait(memory.fetched[sums.stage], sums.phase ^ 1);
    after_synchronization();
    for (int step = 0; step < tiles.steps; ++step, turn.next()) {
      const unsigned char* const left = memory.stages[turn.stage];
      const unsigned char* const right = left + kLeftBytes;
      wait(memory.loaded[turn.stage], turn.phase);
      after_synchronization();
#pragma unroll
      for (int way = 0; way < kWays; ++way) {
        const std::uint64_t a = descriptor(left + way * 32, 16, 8 * kBytes);
        const std::uint64_t b = kByColumns ? descriptor(right + way * 32, 16, 8 * kBytes)
                                           : descriptor(right + way * 16 * kBytes, kDepth * kBytes, 8 * kBytes);
        multiply(to, a, b, kKind<T, kByColumns, kRows, Shape::kColumns>, step > 0 || way > 0);
      }
      commit(memory.multiplied[turn.stage]);
    }
    commit(memory.made[sums.stage]);
  }
}

// A warp stores 32 rows of 64 sums, of which each thread has one. They go through shared memory, as TMA swizzles it, so
// that whole lines are stored.
template <typename T>
__device__ void put(unsigned char* result, const CUtensorMap& map, const Output& output,
                    const float (&sums)[kPartColumns], int row, int column) {
  const int lane = threadIdx.x % 32;
  if (output.by_tma && lane == 0) {
    wait_for_stores<kParts - 1>();
  }
  __syncwarp();
#pragma unroll
  for (int chunk = 0; chunk < kBytes / 16; ++chunk) {
    const float* const from = sums + chunk * 8;
    *reinterpret_cast<uint4*>(result + lane * kBytes + (chunk ^ lane % 8) * 16) =
        make_uint4(pair_of(T(), from[0], from[1]), pair_of(T(), from[2], from[3]), pair_of(T(), from[4], from[5]),
                   pair_of(T(), from[6], from[7]));
  }
  if (output.by_tma) {
    show_to_tma();
  }
  __syncwarp();
  if (output.by_tma) {
    if (lane == 0) {
      store(map, column, row, result);
    }
    return;
  }
#pragma unroll 1
  for (int at_row = 0; at_row < kPartRows && row + at_row < output.rows; ++at_row) {
    T* const to = static_cast<T*>(output.first) + (row + at_row) * static_cast<std::int64_t>(output.columns);
#pragma unroll
    for (int at_column = lane; at_column < kPartColumns; at_column += 32) {
      const int byte = at_column * static_cast<int>(sizeof(T));
      if (column + at_column < output.columns) {
        to[column + at_column] =
            *reinterpret_cast<const T*>(result + at_row * kBytes + (byte / 16 ^ at_row % 8) * 16 + byte % 16);
      }
    }
  }
}

// Four warps fetch the sums of a tile and store them, while those of the next one are made.
template <typename T, class Shape>
__device__ void finish(Memory<Shape>& memory, const CUtensorMap& map, const Output& output, const Tiles& tiles,
                       unsigned tensor, int warp) {
  constexpr int kCount = Shape::kColumns / kPartColumns;
  static_assert(kCount % kParts == 0, "the first part of a tile is not where the last one of the tile before is");
  Turn<kTurns> turn;
  for (int index = blockIdx.x; index < tiles.count(); index += gridDim.x, turn.next()) {
    const Tile tile = tiles.tile(index, Shape::kColumns);
    const unsigned from = tensor + turn.stage * Shape::kColumns + (static_cast<unsigned>(warp * kPartRows) << 16);
    wait(memory.made[turn.stage], turn.phase);
    after_synchronization();
#pragma unroll 1
    for (int part = 0; part < kCount; ++part) {
      float sums[kPartColumns];
      fetch(sums, from + part * kPartColumns);
      if (part + 1 == kCount) {
        before_synchronization();
        arrive(memory.fetched[turn.stage]);
      }
      put<T>(memory.results[warp][part % kParts], map, output, sums, tile.row + warp * kPartRows,
             tile.column + part * kPartColumns);
    }
  }
  if (output.by_tma && threadIdx.x % 32 == 0) {
    wait_for_stores<0>();
  }
}

template <typename T, bool kByColumns, class Shape>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_on_blackwell(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                          const __grid_constant__ CUtensorMap map, Output output, Tiles tiles) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<Memory<Shape>*>(bytes);
  static_assert(sizeof(Memory<Shape>) <= kShared, "a block cannot have so much");
  // The same for all threads of a warp, and the compiler is to know it.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  if (warp == kLoadingWarp && is_elected()) {
    prefetch(a);
    prefetch(b);
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      init(memory.loaded[stage], 1);
      init(memory.multiplied[stage], 1);
    }
    for (int turn = 0; turn < kTurns; ++turn) {
      init(memory.made[turn], 1);
      init(memory.fetched[turn], 32 * kStoringWarps);
    }
    publish();
    show_to_tma();
  }
  __syncwarp();
  if (warp == kMultiplyingWarp) {
    allocate<Shape::kTensorColumns>(memory.tensor);
  }
  before_synchronization();
  __syncthreads();
  after_synchronization();
  const unsigned tensor = memory.tensor;
  if (warp == kLoadingWarp) {
    if (is_elected()) {
      produce<kByColumns>(memory, a, b, tiles);
    }
  } else if (warp == kMultiplyingWarp) {
    if (is_elected()) {
      multiply_all<T, kByColumns>(memory, tiles, tensor);
    }
  } else {
    finish<T>(memory, map, output, tiles, tensor, warp);
  }
  __syncwarp();
  before_synchronization();
  __syncthreads();
  after_synchronization();
  if (warp == kMultiplyingWarp) {
    release<Shape::kTensorColumns>(tensor);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
