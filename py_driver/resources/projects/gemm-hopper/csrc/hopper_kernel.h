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

template <typename T>
using SumOf = std::conditional_t<std::is_same_v<T, signed char>, int, float>;

// sums = a @ b + (more ? sums : 0), for 64 rows, all columns and 32 bytes of the depth. It runs on after the call.
template <typename T, bool kByColumns, int kSums>
__device__ void multiply(SumOf<T> (&sums)[kSums], std::uint64_t a, std::uint64_t b, bool more) {
  if constexpr (std::is_same_v<T, signed char>) {
    WGMMA("k32.s32.s8.s8", "+r", "")
  } else if constexpr (std::is_same_v<T, __half> && kByColumns) {
    WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 0")
  } else if constexpr (std::is_same_v<T, __half>) {
    WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 1")
  } else if constexpr (kByColumns) {
    WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 0")
  } else {
    WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 1")
  }
}

// Of few rows, where b is the first matrix and a the second: see hopper_few.h.
template <typename T, bool kColumnwise>
struct FewProduct {
  using Sum = SumOf<T>;
  template <int kHigh>
  using More = Nothing;
  static constexpr bool kByColumns = kColumnwise;
  static constexpr int kDepth = kBytes / static_cast<int>(sizeof(T));

  __device__ void prepare(Nothing&, int, int, int, int, int) const {}

  template <int kSums>
  static __device__ void multiply_way(Sum (&sums)[kSums], std::uint64_t a, std::uint64_t b, bool more) {
    if constexpr (std::is_same_v<T, signed char>) {
      WGMMA("k32.s32.s8.s8", "+r", "")
    } else if constexpr (std::is_same_v<T, __half> && kByColumns) {
      WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 0")
    } else if constexpr (std::is_same_v<T, __half>) {
      WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 1, 0")
    } else if constexpr (kByColumns) {
      WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 0")
    } else {
      WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 1, 0")
    }
  }

  // A step of the depth. It runs on after the call.
  template <int kSums>
  static __device__ void start(Sum (&sums)[kSums], const unsigned char* of_b, const unsigned char* of_a, bool more) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int way = 0; way < kBytes / 32; ++way) {
      const std::uint64_t b = kByColumns ? descriptor(of_b + way * 32, 0, 8 * kBytes)
                                         : descriptor(of_b + way * 16 * kBytes, 64 * kBytes, 8 * kBytes);
      multiply_way(sums, b, descriptor(of_a + way * 32, 0, 8 * kBytes), more || way > 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }

  template <int kSums>
  __device__ void multiply(Sum (&sums)[kSums], const unsigned char* of_b, const unsigned char* of_a, const Nothing&,
                           int step, int first) const {
    start(sums, of_b, of_a, step > first);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }

  __device__ Sum finish(Sum sum, int, int) const { return sum; }
};

template <typename T, bool kByColumns, typename Out, class Shape>
__device__ void consume(Memory<Shape>& memory, const CUtensorMap& map, const Output& output, const Jobs& jobs) {
  constexpr int kWays = kBytes / 32;
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int warp = threadIdx.x % kWarpgroup / 32;
  const int lane = threadIdx.x % 32;
  const int rank = rank_in_cluster();
  // A stage is empty once all blocks that get it have read it; one thread tells one block.
  const auto release = [&](int stage) {
    if (lane < Shape::kBlocks) {
      arrive(memory.empty[stage], lane);
    }
  };
  Turn<Shape::kStages> turn;
  for (int index = blockIdx.x / Shape::kBlocks; index < jobs.count(); index += gridDim.x / Shape::kBlocks) {
    const Job job = jobs.job(index, kGroup / Shape::kDown);
    // The first step overwrites them; but without a value nvcc 12.4 has each product wait for the one before.
    SumOf<T> sums[Shape::kSums] = {};
    int before = 0;
#pragma unroll 1
    for (int step = job.first; step < job.last; ++step) {
      const unsigned char* const left = memory.stages[turn.stage] + consumer * 64 * kBytes;
      const unsigned char* const right = memory.stages[turn.stage] + kLeftBytes;
      wait(memory.full[turn.stage], turn.phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int way = 0; way < kWays; ++way) {
        const std::uint64_t a = descriptor(left + way * 32, 0, 8 * kBytes);
        const std::uint64_t b = kByColumns ? descriptor(right + way * 32, 0, 8 * kBytes)
                                           : descriptor(right + way * 16 * kBytes, 64 * kBytes, 8 * kBytes);
        multiply<T, kByColumns>(sums, a, b, step > job.first || way > 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      // These run on; those of the step before have ended, and its stage can be loaded again.
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (step > job.first) {
        release(before);
      }
      before = turn.stage;
      turn.next();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(before);
    const int row = (job.down * Shape::kDown + rank / Shape::kAcross) * kRows + consumer * 64 + warp * kPartRows;
    const int column = (job.across * Shape::kAcross + rank % Shape::kAcross) * Shape::kColumns;
    put<Out>(memory.results[consumer * kWarpgroup / 32 + warp][0], map, output, sums, job.split, row, column);
  }
  if (output.by_tma && lane == 0) {
    wait_for_stores<0>();
  }
}

template <typename T, bool kByColumns, typename Out, class Shape>
__global__ void __cluster_dims__(Shape::kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    multiply_on_hopper(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ CUtensorMap map, Output output, Jobs jobs) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<Memory<Shape>*>(bytes);
  if (threadIdx.x == 0) {
    prefetch(a);
    prefetch(b);
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], Shape::kBlocks * kWarps);
    }
    publish();
  }
  synchronize_cluster();
  // The threads that load need few registers; the others need theirs for the sums.
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      produce<T, kByColumns>(memory, a, b, jobs);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<T, kByColumns, Out>(memory, map, output, jobs);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
