[% if cuda %]
// The kernel that multiplies on a Hopper GPU, for hopper.cu.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "[[ module ]].h"
#include "hopper_few.h"
#include "hopper_ptx.h"
#include "hopper_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

// The sums of tensor cores have some 14 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2). So they add up a step of
// the depth, which is a block of scales, and what they have is multiplied by its scales and added to sums of float32:
// "exact". "Fast" sums never leave the tensor cores.
static_assert(kBytes == kBlock, "a step of the depth is a block of scales");

constexpr int kPartColumns = 128;  // that an exact sum takes at once, so that registers are left for its parts

// Scales of the steps that are loaded ahead. Threads load them that have nothing else to do.
template <int kStages>
struct StepScales {
  float a[kStages][kRows];
  float b[kStages][2];
};

constexpr int kFewSteps = 16;  // whose scales a block of few rows keeps

constexpr int kScaleBytes = (kRows + 2) * static_cast<int>(sizeof(float));
constexpr int kScaleThreads = kRows / 2 + 2;  // two rows each, and one for each part of the columns

template <class Shape>
using ScaledMemory = Memory<Shape, StepScales<Shape::kStages>>;

// sums = a @ b + (more ? sums : 0), for 64 rows, all columns and 32 of the depth. It runs on after the call.
template <int kSums>
__device__ void multiply(float (&sums)[kSums], std::uint64_t a, std::uint64_t b, bool more) {
  WGMMA("k32.f32.e4m3.e4m3", "+f", ", 1, 1")
}

// The same for a whole step of the depth.
template <int kSums>
__device__ void multiply_step(float (&sums)[kSums], const unsigned char* left, const unsigned char* right, bool more) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int way = 0; way < kBytes / 32; ++way) {
    multiply(sums, descriptor(left + way * 32, 0, 8 * kBytes), descriptor(right + way * 32, 0, 8 * kBytes),
             more || way > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until all but the last `kOthers` steps of this warpgroup have ended.
template <int kOthers>
__device__ void wait_for_steps() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOthers) : "memory");
}

// A thread's share of the scales of each step: it reads them one step before their place is free.
template <class Shape>
__device__ void produce_scales(ScaledMemory<Shape>& memory, const Jobs& jobs, const Output& output,
                               const Scales& scales, int thread) {
  const int rank = rank_in_cluster();
  const bool of_rows = thread < kRows / 2;
  const std::int64_t step_size = of_rows ? scales.a_step : scales.b_step;
  Turn<Shape::kStages> turn;
  for (int index = blockIdx.x / Shape::kBlocks; index < jobs.count(); index += gridDim.x / Shape::kBlocks) {
    const Job job = jobs.job(index, kGroup / Shape::kDown);
    const float* first;
    const float* second;
    if (of_rows) {
      const int row = (job.down * Shape::kDown + rank / Shape::kAcross) * kRows + thread;
      first = scales.a + min(row, output.rows - 1) * scales.a_row;
      second = scales.a + min(row + kRows / 2, output.rows - 1) * scales.a_row;
    } else {
      const int column = (job.across * Shape::kAcross + rank % Shape::kAcross) * Shape::kColumns;
      const int block = column / kBlock + thread - kRows / 2;
      first = second = scales.b + min(block, (output.columns - 1) / kBlock) * scales.b_column;
    }
    first += job.first * step_size;
    second += job.first * step_size;
    float next[] = {*first, *second};
    for (int step = job.first; step < job.last; ++step, turn.next()) {
      const float now[] = {next[0], next[1]};
      if (step + 1 < job.last) {
        first += step_size;
        second += step_size;
        next[0] = *first;
        next[1] = *second;
      }
      wait(memory.empty[turn.stage], turn.phase ^ 1);
      if (of_rows) {
        memory.more.a[turn.stage][thread] = now[0];
        memory.more.a[turn.stage][thread + kRows / 2] = now[1];
      } else {
        memory.more.b[turn.stage][thread - kRows / 2] = now[0];
      }
      arrive(memory.full[turn.stage], rank);
    }
  }
}

// Multiplies the sums of a tile by the scales of their rows and columns, where these are the same for all of the depth.
template <int kSums>
__device__ void scale(float (&sums)[kSums], const Output& output, const Scales& scales, int row, int column) {
  const int lane = threadIdx.x % 32;
  const auto row_scale = [&](int below) {
    return scales.a[min(row + lane / 4 + below, output.rows - 1) * scales.a_row];
  };
  const float rows[] = {row_scale(0), row_scale(8)};
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int at = column + lane % 4 * 2 + i / 4 * 8 + i % 2;
    sums[i] *= rows[i / 2 % 2] * scales.b[min(at, output.columns - 1) * scales.b_column];
  }
}

// Of few rows, where b is the first matrix and a the second: see hopper_few.h.
template <bool kFast>
struct FewProduct {
  // The scales of some steps, each times that of b: all threads that multiply fetch them.
  template <int kHigh>
  struct More {
    alignas(8) float factors[kFewSteps][kHigh];
  };

  using Sum = float;
  static constexpr bool kByColumns = true;
  static constexpr int kDepth = kBytes;
  static_assert(kFewColumns == kBlock, "a block of threads needs one scale of b");

  Scales scales;

  template <int kHigh>
  __device__ void prepare(More<kHigh>& more, int step, int first, int last, int column, int rows) const {
    if (kFast || !scales.blocks || (step - first) % kFewSteps != 0) {
      return;
    }
    synchronize_consumers();
    for (int i = threadIdx.x; i < kFewSteps * kHigh; i += 32 * kFewWarps) {
      const int at = step + i / kHigh;
      const int row = min(i % kHigh, rows - 1);
      more.factors[i / kHigh][i % kHigh] =
          at < last ? scales.a[row * scales.a_row + at * scales.a_step] *
                          scales.b[at * scales.b_step + column / kBlock * scales.b_column]
                    : 0.0f;
    }
    synchronize_consumers();
  }

  template <int kSums>
  __device__ void multiply(float (&sums)[kSums], const unsigned char* of_b, const unsigned char* of_a,
                           const More<2 * kSums>& more, int step, int first) const {
    if constexpr (kFast) {
      multiply_step(sums, of_b, of_a, step > first);
      wait_for_steps<0>();
    } else {
      float part[kSums];
      multiply_step(part, of_b, of_a, false);
      wait_for_steps<0>();
      const float* const factors = more.factors[(step - first) % kFewSteps] + threadIdx.x % 4 * 2;
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        const float2 pair =
            scales.blocks ? *reinterpret_cast<const float2*>(factors + i / 4 * 8) : make_float2(1.0f, 1.0f);
        sums[i] = fmaf(pair.x, part[i], sums[i]);
        sums[i + 1] = fmaf(pair.y, part[i + 1], sums[i + 1]);
        sums[i + 2] = fmaf(pair.x, part[i + 2], sums[i + 2]);
        sums[i + 3] = fmaf(pair.y, part[i + 3], sums[i + 3]);
      }
    }
  }

  __device__ float finish(float sum, int row, int column) const {
    return scales.blocks ? sum : sum * (scales.a[row * scales.a_row] * scales.b[column * scales.b_column]);
  }
};

template <bool kFast, typename Out, class Shape>
__device__ void consume(ScaledMemory<Shape>& memory, const CUtensorMap& map, const Output& output, const Jobs& jobs,
                        const Scales& scales) {
  constexpr int kPartSums = Shape::kSums < kPartColumns / 2 ? Shape::kSums : kPartColumns / 2;
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int warp = threadIdx.x % kWarpgroup / 32;
  const int lane = threadIdx.x % 32;
  const int rank = rank_in_cluster();
  const int own_row = consumer * 64 + warp * kPartRows;
  // A stage is empty once all blocks that get it have read it; one thread tells one block.
  const auto release = [&](int stage) {
    if (lane < Shape::kBlocks) {
      arrive(memory.empty[stage], lane);
    }
  };
  Turn<Shape::kStages> turn;
  for (int index = blockIdx.x / Shape::kBlocks; index < jobs.count(); index += gridDim.x / Shape::kBlocks) {
    const Job job = jobs.job(index, kGroup / Shape::kDown);
    float sums[Shape::kSums] = {};
    int before = 0;
#pragma unroll 1
    for (int step = job.first; step < job.last; ++step) {
      const unsigned char* const left = memory.stages[turn.stage] + consumer * 64 * kBytes;
      const unsigned char* const right = memory.stages[turn.stage] + kLeftBytes;
      wait(memory.full[turn.stage], turn.phase);
      if constexpr (kFast) {
        multiply_step(sums, left, right, step > job.first);
        // This one runs on; the step before has ended, and its stage can be loaded again.
        wait_for_steps<1>();
        if (step > job.first) {
          release(before);
        }
        before = turn.stage;
      } else {
        const auto row_scale = [&](int below) {
          return scales.blocks ? memory.more.a[turn.stage][own_row + lane / 4 + below] : 1.0f;
        };
        const float rows[] = {row_scale(0), row_scale(8)};
#pragma unroll
        for (int first = 0; first < Shape::kSums; first += kPartSums) {
          float part[kPartSums];
          multiply_step(part, left, right + first / kPartSums * kPartColumns * kBytes, false);
          const float columns = scales.blocks ? memory.more.b[turn.stage][first / kPartSums] : 1.0f;
          wait_for_steps<0>();
          if (first + kPartSums == Shape::kSums) {
            release(turn.stage);
          }
          const float factors[] = {rows[0] * columns, rows[1] * columns};
#pragma unroll
          for (int i = 0; i < kPartSums; ++i) {
            sums[first + i] = fmaf(factors[i / 2 % 2], part[i], sums[first + i]);
          }
        }
      }
      turn.next();
    }
    if constexpr (kFast) {
      wait_for_steps<0>();
      release(before);
    }
    const int row = (job.down * Shape::kDown + rank / Shape::kAcross) * kRows + own_row;
    const int column = (job.across * Shape::kAcross + rank % Shape::kAcross) * Shape::kColumns;
    if (!scales.blocks) {
      scale(sums, output, scales, row, column);
    }
    put<Out>(memory.results[consumer * kWarpgroup / 32 + warp][0], map, output, sums, job.split, row, column);
  }
  if (output.by_tma && lane == 0) {
    wait_for_stores<0>();
  }
}

template <bool kFast, typename Out, class Shape>
__global__ void __cluster_dims__(Shape::kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    multiply_on_hopper(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ CUtensorMap map, Output output, Jobs jobs, Scales scales) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<ScaledMemory<Shape>*>(bytes);
  if (threadIdx.x == 0) {
    prefetch(a);
    prefetch(b);
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      init(memory.full[stage], scales.blocks ? 1 + kScaleThreads : 1);
      init(memory.empty[stage], Shape::kBlocks * kWarps);
    }
    publish();
  }
  synchronize_cluster();
  // The threads that load need few registers; the others need theirs for the sums.
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      produce<std::uint8_t, true>(memory, a, b, jobs);
    } else if (scales.blocks && threadIdx.x >= 32 && threadIdx.x < 32 + kScaleThreads) {
      produce_scales(memory, jobs, output, scales, static_cast<int>(threadIdx.x) - 32);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<kFast, Out>(memory, map, output, jobs, scales);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
