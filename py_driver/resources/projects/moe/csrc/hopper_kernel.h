[% if cuda %]
// The kernel that multiplies on a Hopper GPU, for hopper.cu.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "hopper_ptx.h"
#include "hopper_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

// sums = x @ weights + (more ? sums : 0), for 64 rows, all columns and 16 of the depth. It runs on after the call.
template <typename T, bool kByColumns, int kSums>
__device__ void multiply(float (&sums)[kSums], std::uint64_t a, std::uint64_t b, bool more) {
  if constexpr (std::is_same_v<T, __half> && kByColumns) {
    WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 0")
  } else if constexpr (std::is_same_v<T, __half>) {
    WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 1")
  } else if constexpr (kByColumns) {
    WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 0")
  } else {
    WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 1")
  }
}

template <typename T, bool kByColumns, int kColumns>
__device__ void consume(Memory<kColumns>& memory, const CUtensorMap& map, const Output& output, const Jobs& jobs) {
  using Own = Memory<kColumns>;
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int warp = threadIdx.x % kWarpgroup / 32;
  const int lane = threadIdx.x % 32;
  const int rank = rank_in_cluster();
  // A stage is empty once both blocks have read it; one thread tells one block.
  const auto release = [&](int stage) {
    if (lane < kPair) {
      arrive(memory.empty[stage], lane);
    }
  };
  Turn<Own::kStages> turn;
  Walk walk(jobs);
  Job job;
  for (int index = blockIdx.x / kPair; walk.find(job, index); index += gridDim.x / kPair) {
    const Tile<kColumns> tile(job, rank);
    const int first_row = tile.row + consumer * kHalfRows;
    if (first_row >= job.end || tile.column >= output.columns) {
      // Nothing to store. The stages are for the others.
#pragma unroll 1
      for (int step = 0; step < jobs.steps; ++step, turn.next()) {
        wait(memory.full[turn.stage], turn.phase);
        release(turn.stage);
      }
      continue;
    }
    // The first step overwrites them; but without a value nvcc 12.4 has each product wait for the one before.
    float sums[kHalfRows * kColumns / kWarpgroup] = {};
    int before = 0;
#pragma unroll 1
    for (int step = 0; step < jobs.steps; ++step) {
      const unsigned char* const left = memory.stages[turn.stage] + consumer * kHalfRows * kBytes;
      const unsigned char* const right = memory.stages[turn.stage] + Own::kLeftBytes;
      wait(memory.full[turn.stage], turn.phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int way = 0; way < kBytes / 32; ++way) {
        const std::uint64_t a = descriptor(left + way * 32, 0, 8 * kBytes);
        const std::uint64_t b = kByColumns ? descriptor(right + way * 32, 0, 8 * kBytes)
                                           : descriptor(right + way * 16 * kBytes, 64 * kBytes, 8 * kBytes);
        multiply<T, kByColumns>(sums, a, b, step > 0 || way > 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      // These run on; those of the step before have ended, and its stage can be loaded again.
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (step > 0) {
        release(before);
      }
      before = turn.stage;
      turn.next();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(before);
    const int row = first_row + warp * kPartRows;
    if (row < job.end) {
      put<T>(memory.results[consumer * kWarpgroup / 32 + warp][0], map, output, sums, row, job.end, tile.column);
    }
  }
  if (lane == 0) {
    wait_for_stores<0>();
  }
}

template <typename T, bool kByColumns, int kColumns>
__global__ void __cluster_dims__(kPair, 1, 1) __launch_bounds__(kHopperThreads, 1)
    multiply_tiles(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weights,
                   const __grid_constant__ CUtensorMap map, Output output, Jobs jobs) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<Memory<kColumns>*>(bytes);
  if (threadIdx.x == 0) {
    prefetch(x);
    prefetch(weights);
    for (int stage = 0; stage < Memory<kColumns>::kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], kPair * kWarps);
    }
    publish();
  }
  synchronize_cluster();
  // The threads that load need few registers; the others need theirs for the sums.
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      produce<kByColumns>(memory, x, weights, jobs);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<T, kByColumns>(memory, map, output, jobs);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
