[% if cuda %]
// The kernel that multiplies on a Hopper GPU, for hopper.cu.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "hopper_ptx.h"
#include "hopper_weights.h"

namespace [[ module ]]_impl {
[% include "projects/parts/turn.cpp" %]
[% raw %]

// A block makes kColumns of the output for some rows of x, as the transposed product: weights are the first matrix of
// WGMMA, since only that one can come from registers, where they became numbers of 16 bits. Two warpgroups multiply 64
// columns each, and a third one loads, in steps of kBytes of x.
constexpr int kConsumers = 2;
constexpr int kWarpgroup = 128;
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kWarps = kConsumers * kWarpgroup / 32;  // that multiply
constexpr int kColumns = 64 * kConsumers;
constexpr int kBytes = 2 * kStep;
constexpr int kShared = 232448;  // bytes that a block can have

// From row to row of the sums in shared memory, so that no two threads of a warp store to the same bank.
constexpr int kPitch = kColumns + 4;

// Tiles that run at the same time share rows of x and weights in the L2 cache: kGroup tiles down, then across.
constexpr int kGroup = 16;

template <int kRows>
struct Memory {
  static constexpr int kStageBytes = kRows * kBytes + kColumns * kStepBytes;
  static constexpr int kStages = kShared / (kStageBytes + 2 * static_cast<int>(sizeof(std::uint64_t)));
  static_assert(kRows * kPitch * static_cast<int>(sizeof(float)) <= kStages * kRows * kBytes, "sums lie where x was");

  alignas(1024) unsigned char x[kStages][kRows * kBytes];
  alignas(1024) unsigned char weights[kStages][kColumns * kStepBytes];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

struct Work {
  std::int64_t columns;
  int rows;
  int steps;
  int groups;
  int halves;  // of steps, in a group
  // A cluster has `sharing` blocks beside each other, one or two, which share rows of x; and it splits the depth.
  int sharing;
  int splits;
};

// What a block makes: its first row and column, and its steps.
struct Part {
  int row;
  std::int64_t column;
  int first;
  int last;
};

template <int kRows>
__device__ Part part_of(const Work& work, int rank) {
  const int high = (work.rows + kRows - 1) / kRows;
  const int wide = static_cast<int>((work.columns + kColumns * work.sharing - 1) / (kColumns * work.sharing));
  const int tile = static_cast<int>(blockIdx.x) / (work.sharing * work.splits);
  const int group = tile / (kGroup * wide);
  const int within = tile % (kGroup * wide);
  const int high_group = min(kGroup, high - group * kGroup);
  const int split = rank / work.sharing;
  return {(group * kGroup + within % high_group) * kRows,
          (static_cast<std::int64_t>(within / high_group) * work.sharing + rank % work.sharing) * kColumns,
          static_cast<int>(split * static_cast<std::int64_t>(work.steps) / work.splits),
          static_cast<int>((split + 1) * static_cast<std::int64_t>(work.steps) / work.splits)};
}

template <int kRows>
__device__ void produce(Memory<kRows>& memory, const CUtensorMap& x, const CUtensorMap& weights, const Part& part,
                        int sharing, int rank) {
  constexpr int kHalfRows = kRows / 2;
  Turn<Memory<kRows>::kStages> turn;
  for (int step = part.first; step < part.last; ++step, turn.next()) {
    unsigned char* const to = memory.x[turn.stage];
    std::uint64_t& full = memory.full[turn.stage];
    // The first round finds all stages empty: the phase before the first one counts as ended.
    wait(memory.empty[turn.stage], turn.phase ^ 1);
    arrive_and_expect(full, Memory<kRows>::kStageBytes);
    load(memory.weights[turn.stage], weights, step * kStepBytes, static_cast<int>(part.column), full);
    if (sharing == 2) {
      const int half = rank % 2 * kHalfRows;
      load_for(static_cast<unsigned short>(3 << rank / 2 * 2), to + half * kBytes, x, step * kStep, part.row + half,
               full);
    } else {
      load(to, x, step * kStep, part.row, full);
      load(to + kHalfRows * kBytes, x, step * kStep, part.row + kHalfRows, full);
    }
  }
}

// clang-format off
#define FROM_REGISTERS(count, rows, type, n0, n1, n2, n3, n4)                                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #rows "k16.f32." type "." type " {" NAMES_##count "}, "             \
               "{%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", 1, 1, 1, 0;"                                       \
               : SUMS_##count("+f")                                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define FROM_REGISTERS_BY_ROWS(type)                                                                                   \
  if constexpr (kSums == 128) {                                                                                        \
    FROM_REGISTERS(128, 256, type, 128, 129, 130, 131, 132);                                                           \
  } else if constexpr (kSums == 96) {                                                                                  \
    FROM_REGISTERS(96, 192, type, 96, 97, 98, 99, 100);                                                                \
  } else {                                                                                                             \
    FROM_REGISTERS(64, 128, type, 64, 65, 66, 67, 68);                                                                 \
  }
// clang-format on

// sums += weights of 64 columns @ x of all rows, for a depth of 16. It runs on after the call.
template <typename T, int kSums>
__device__ void multiply(float (&sums)[kSums], const unsigned (&a)[4], std::uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    FROM_REGISTERS_BY_ROWS("f16")
  } else {
    FROM_REGISTERS_BY_ROWS("bf16")
  }
}

// What a product reads from registers: they are not used again before this.
inline __device__ void keep(Fragment& fragment) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile("" : "+r"(fragment[i])::"memory");
  }
}

// Multiplies all steps of a part: at least one. A warpgroup waits where a product needs registers and another one runs,
// so between two products stands what makes the weights of the next.
template <typename T, int kRows, int kSums>
__device__ void consume(float (&sums)[kSums], Memory<kRows>& memory, Scales<T>& scales, const Part& part, int sharing,
                        int rank) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  Turn<Memory<kRows>::kStages> turn;
  Turn<Memory<kRows>::kStages> next;
  int before = 0;
  // A stage is empty once all blocks that get it have read it; one thread tells one block.
  const int told = kept(rank / sharing * sharing + lane);
  const bool tells = lane < sharing;
  const auto release = [&](int stage) {
    if (tells) {
      arrive(memory.empty[stage], told);
    }
  };
  const int own = warp * 16 * kStepBytes;
  const int places[2] = {kept(own + place_in_warp(0)), kept(own + place_in_warp(1))};
  const Converter<T> numbers;
  Fragment fragments[kWays];
  Packed packed[2];
  T now[2][2];
  const auto take_scales = [&] {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now[half][0] = scales.next[half][0];
      now[half][1] = scales.next[half][1];
    }
    scales.fetch();
  };
  wait(memory.full[0], 0);
  read(packed[0], memory.weights[0] + places[0]);
  read(packed[1], memory.weights[0] + places[1]);
  take_scales();
  make(fragments[0], packed[0], now[0], false, numbers);
#pragma unroll 1
  for (int step = part.first; step < part.last; ++step) {
    const bool more = step + 1 < part.last;
    next.next();
#pragma unroll
    for (int way = 0; way < kWays; ++way) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply<T>(sums, fragments[way], descriptor(memory.x[turn.stage] + way * 32, 0, 8 * kBytes));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      // This product runs on. After the first one of a step, those of the step before have ended.
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      keep(fragments[(way + kWays - 1) % kWays]);
      if (way == 0 && step > part.first) {
        release(before);
      }
      // Half a step is read where that of the step before has been used.
      if (way == 1 && more) {
        wait(memory.full[next.stage], next.phase);
        read(packed[0], memory.weights[next.stage] + places[0]);
      }
      if (way == 3) {
        take_scales();
      }
      const int made = (way + 1) % kWays;
      make(fragments[made], packed[made / 2], now[made / 2], made % 2 == 1, numbers);
      if (way == 2 && more) {
        read(packed[1], memory.weights[next.stage] + places[1]);
      }
    }
    before = turn.stage;
    turn.next();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int way = 0; way < kWays; ++way) {
    keep(fragments[way]);
  }
  release(before);
}

// Until all threads that multiply are here.
inline __device__ void synchronize_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(32 * kWarps) : "memory"); }

[% endraw %]
[% include "projects/parts/store_four.cpp" %]
[% raw %]
// Adds up the sums of all splits, in their order; each of their blocks does that for some rows, and stores them.
template <typename T, int kRows>
__device__ void join(T* out, const float* sums, const Part& part, const Work& work, int rank) {
  constexpr int kAtOnce = 32 * kWarps * kFour / kColumns;  // rows
  const bool aligned = work.columns % kFour == 0 && reinterpret_cast<std::uintptr_t>(out) % (kFour * sizeof(T)) == 0;
  const int at = threadIdx.x % (kColumns / kFour) * kFour;
  const int rows = min(kRows, work.rows - part.row);
  const int first = rank / work.sharing * kAtOnce + static_cast<int>(threadIdx.x) / (kColumns / kFour);
#pragma unroll 4
  for (int row = first; row < rows; row += work.splits * kAtOnce) {
    const float* const own = sums + row * kPitch + at;
    float all[kFour];
    if (work.splits == 1) {
      *reinterpret_cast<float4*>(all) = *reinterpret_cast<const float4*>(own);
    } else {
      load_from(all, own, rank % work.sharing);
      for (int split = 1; split < work.splits; ++split) {
        float one[kFour];
        load_from(one, own, split * work.sharing + rank % work.sharing);
#pragma unroll
        for (int i = 0; i < kFour; ++i) {
          all[i] += one[i];
        }
      }
    }
    store_four(out + (part.row + row) * work.columns + part.column + at, all, work.columns - part.column - at, aligned);
  }
}

template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_on_hopper(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weights,
                       const T* __restrict__ scales, T* __restrict__ out, const __grid_constant__ Work work) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<Memory<kRows>*>(bytes);
  auto* const results = reinterpret_cast<float*>(bytes);
  const int rank = rank_in_cluster();
  const Part part = part_of<kRows>(work, rank);
  if (threadIdx.x == kThreads - 1) {
    prefetch(x);
    prefetch(weights);
    for (int stage = 0; stage < Memory<kRows>::kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], work.sharing * kWarps);
    }
    publish();
  }
  synchronize_cluster();
  // The threads that load need few registers; the others need theirs for the sums.
  if (threadIdx.x >= kConsumers * kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == kConsumers * kWarpgroup) {
      produce(memory, x, weights, part, work.sharing, rank);
    }
    __syncwarp();
    if (work.splits > 1) {
      share_in_cluster();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    // What is beyond the last column is computed as that one is, and not stored.
    const T* rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows[i] = scales + min(part.column + warp * 16 + lane / 4 + 8 * i, work.columns - 1) * work.groups;
    }
    Scales<T> own(rows[0], rows[1], work.groups, work.halves, part.first);
    float sums[kRows / 2] = {};
    consume<T, kRows>(sums, memory, own, part, work.sharing, rank);
    // All have read what was loaded, and the sums can lie there.
    synchronize_consumers();
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      results[(lane % 4 * 2 + i % 2 + i / 4 * 8) * kPitch + warp * 16 + lane / 4 + i / 2 % 2 * 8] = sums[i];
    }
    if (work.splits > 1) {
      share_in_cluster();
    } else {
      synchronize_consumers();
    }
    join<T, kRows>(out, results, part, work, rank);
  }
  // The others have read what is in the memory of this block, and told its barriers.
  share_in_cluster();
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
