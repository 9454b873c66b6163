// The kernel that multiplies on a Hopper GPU, for hopper.cu.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

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
constexpr int kLoaded = 196608;  // bytes of shared memory for steps that are loaded ahead

// What a warp stores at once: 16 rows of kBytes. It fills one such part while TMA reads the other.
constexpr int kPartRows = 16;
constexpr int kParts = 2;

// Tiles that run at the same time share rows of a and columns of b in the L2 cache: kGroup tiles down, then across.
constexpr int kGroup = 16;

// The shape of a tile, and of the cluster of blocks that load it: blocks below each other share columns of b, and
// blocks beside each other share rows of a. Each loads its part of what they share, for all of them.
template <int kWide, int kBelow, int kBeside>
struct Shape {
  static constexpr int kColumns = kWide;
  static constexpr int kDown = kBelow;
  static constexpr int kAcross = kBeside;
  static constexpr int kBlocks = kBelow * kBeside;
  static constexpr int kSums = 64 * kWide / kWarpgroup;  // of a thread
  static constexpr int kStageBytes = kLeftBytes + kWide * kBytes;
  static constexpr int kStages = kLoaded / kStageBytes;
};

template <class Shape>
struct Memory {
  alignas(1024) unsigned char stages[Shape::kStages][Shape::kStageBytes];
  alignas(1024) unsigned char results[kWarps][kParts][kPartRows * kBytes];
  std::uint64_t full[Shape::kStages];
  std::uint64_t empty[Shape::kStages];
};

inline __device__ __half2 pair_of(__half, float x, float y) { return __floats2half2_rn(x, y); }
inline __device__ __nv_bfloat162 pair_of(__nv_bfloat16, float x, float y) { return __floats2bfloat162_rn(x, y); }
inline __device__ float2 pair_of(float, float x, float y) { return make_float2(x, y); }
inline __device__ int2 pair_of(int, int x, int y) { return make_int2(x, y); }

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

// Which stage is next, and how often all were: the producer and the consumers count alike.
template <int kStages>
struct Turn {
  int stage = 0;
  unsigned phase = 0;

  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

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

template <typename T, bool kByColumns, class Shape>
__device__ void produce(Memory<Shape>& memory, const CUtensorMap& a, const CUtensorMap& b, const Jobs& jobs) {
  constexpr int kDepth = kBytes / sizeof(T);
  constexpr int kLeftRows = kRows / Shape::kAcross;
  constexpr int kRightColumns = Shape::kColumns / Shape::kDown;
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
      static_assert(Shape::kAcross == 1, "the bits of the blocks below each other are neighbours");
      load_for((1 << Shape::kDown) - 1, to, b, x, y, full);
    } else {
      load(to, b, x, y, full);
    }
  };
  Turn<Shape::kStages> turn;
  for (int index = blockIdx.x / Shape::kBlocks; index < jobs.count(); index += gridDim.x / Shape::kBlocks) {
    const Job job = jobs.job(index, kGroup / Shape::kDown);
    const int row = (job.down * Shape::kDown + down) * kRows + across * kLeftRows;
    const int column = (job.across * Shape::kAcross + across) * Shape::kColumns + down * kRightColumns;
    for (int step = job.first; step < job.last; ++step, turn.next()) {
      unsigned char* const left = memory.stages[turn.stage] + across * kLeftRows * kBytes;
      unsigned char* const right = memory.stages[turn.stage] + kLeftBytes + down * kRightColumns * kBytes;
      std::uint64_t& full = memory.full[turn.stage];
      // The first round finds all stages empty: the phase before the first one counts as ended.
      wait(memory.empty[turn.stage], turn.phase ^ 1);
      arrive_and_expect(full, Shape::kStageBytes);
      load_left(left, step * kDepth, row, full);
      if constexpr (kByColumns) {
        load_right(right, step * kDepth, column, full);
      } else {
        for (int part = 0; part < kRightColumns / kDepth; ++part) {
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
  const int lane = threadIdx.x % 32;
  const std::int64_t skipped = static_cast<std::int64_t>(split) * output.split_rows;
#pragma unroll
  for (int part = 0; part < kSums / kEach; ++part, column += kWide) {
    unsigned char* const result = results + part % kParts * kPartRows * kBytes;
    if (output.by_tma && lane == 0) {
      wait_for_stores<kParts - 1>();
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      const int at_row = lane / 4 + i / 2 % 2 * 8;
      const int byte = (lane % 4 * 2 + i / 4 * 8) * static_cast<int>(sizeof(Out));
      unsigned char* const to = result + at_row * kBytes + (byte / 16 ^ at_row % 8) * 16 + byte % 16;
      const auto pair = pair_of(Out(), sums[part * kEach + i], sums[part * kEach + i + 1]);
      *reinterpret_cast<std::remove_const_t<decltype(pair)>*>(to) = pair;
    }
    if (output.by_tma) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
    if (output.by_tma) {
      if (lane == 0) {
        store(map, column, static_cast<int>(skipped) + row, result);
      }
      continue;
    }
#pragma unroll 1
    for (int at_row = 0; at_row < kPartRows && row + at_row < output.rows; ++at_row) {
      Out* const to = static_cast<Out*>(output.first) + (row + at_row) * static_cast<std::int64_t>(output.columns);
#pragma unroll
      for (int at_column = lane; at_column < kWide; at_column += 32) {
        const int byte = at_column * static_cast<int>(sizeof(Out));
        if (column + at_column < output.columns) {
          to[column + at_column] = *reinterpret_cast<const Out*>(result + at_row * kBytes +
                                                                 (byte / 16 ^ at_row % 8) * 16 + byte % 16);
        }
      }
    }
  }
}

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
