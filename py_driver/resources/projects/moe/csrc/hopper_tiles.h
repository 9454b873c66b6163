[% if cuda %]
// Which tiles a block of the kernel for Hopper GPUs makes in which order, how they are loaded, and what it stores.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "hopper_ptx.h"

namespace [[ module ]]_impl {
[% raw %]

// A block has one warpgroup that loads and two that multiply. Together they make kTileRows rows of the output at a
// time, each half of them, in steps of kStepDepth: the widest row that TMA swizzles.
constexpr int kConsumers = 2;
constexpr int kWarpgroup = 128;
constexpr int kHopperThreads = kWarpgroup * (1 + kConsumers);
constexpr int kWarps = kConsumers * kWarpgroup / 32;  // that multiply
constexpr int kHalfRows = 64;
constexpr int kTileRows = kHalfRows * kConsumers;
constexpr int kBytes = 128;
constexpr int kStepDepth = kBytes / 2;

// Blocks are in pairs, each of which loads its part of what both need, for both.
constexpr int kPair = 2;

// What a warp stores at once: 16 rows of kBytes. It fills one such part while TMA reads the other.
constexpr int kPartRows = 16;
constexpr int kPartColumns = kBytes / 2;
constexpr int kParts = 2;

// Bytes of shared memory: all that a block can have, and what is left for steps that are loaded ahead.
constexpr int kShared = 232448;
constexpr int kLoaded = kShared - kWarps * kParts * kPartRows * kBytes;

// Pairs of tiles down whose columns are made together, so that the L2 cache has what they share.
constexpr int kBandPairs = 8;

template <int kColumns>
struct Memory {
  static constexpr int kLeftBytes = kTileRows * kBytes;
  static constexpr int kStageBytes = kLeftBytes + kColumns * kBytes;
  static constexpr int kStages = kLoaded / (kStageBytes + 2 * static_cast<int>(sizeof(std::uint64_t)));
  alignas(1024) unsigned char stages[kStages][kStageBytes];
  alignas(1024) unsigned char results[kWarps][kParts][kPartRows * kBytes];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};
[% endraw %]
[% include "projects/parts/turn.cpp" %]
[% raw %]
// What all blocks know of the product.
struct Jobs {
  const std::int32_t* offsets;
  int experts;
  int across;  // tiles beside each other
  int steps;
};

// A tile for each block of a pair: below each other in the same columns, or `beside` each other in the same rows. The
// expert's rows end before `end`; the second of two tiles beside each other may lie outside of the columns.
struct Job {
  int expert;
  int row;  // of the first block
  int end;
  int across;  // likewise, in tiles
  bool beside;
};

// The jobs of all experts, one expert after the other. An expert's tiles are in pairs below each other; where their
// number is odd, those of the last row are in pairs beside each other.
class Walk {
 public:
  __device__ explicit Walk(const Jobs& jobs) : jobs_(jobs), begin_(jobs.offsets[0]), end_(jobs.offsets[1]) {}

  // The job with this index, which is not less than that of the call before; false if there are no more.
  __device__ bool find(Job& job, int index) {
    while (index >= first_ + count()) {
      first_ += count();
      begin_ = end_;
      if (++expert_ >= jobs_.experts) {
        return false;
      }
      end_ = jobs_.offsets[expert_ + 1];
    }
    const int pairs = tiles() / kPair;
    const int odd = tiles() % kPair;
    // The last band has the odd row of tiles, so that it finds its columns in the cache.
    const int last_band = max((pairs - 1) / kBandPairs, 0);
    const int band = min((index - first_) / (kBandPairs * jobs_.across), last_band);
    const int within = index - first_ - band * kBandPairs * jobs_.across;
    const int height = min(pairs - band * kBandPairs, kBandPairs);
    // Two columns of tiles at a time: the jobs of both in all pairs, then those of the odd row.
    const int each = 2 * height + (band == last_band ? odd : 0);
    const int column = within / each * 2;
    const int wide = min(jobs_.across - column, 2);
    const int own = within % each;
    job.expert = expert_;
    job.end = end_;
    job.beside = own >= wide * height;
    job.row = begin_ + (job.beside ? pairs : band * kBandPairs + own / wide) * kPair * kTileRows;
    job.across = column + (job.beside ? 0 : own % wide);
    return true;
  }

 private:
  __device__ int tiles() const { return (end_ - begin_ + kTileRows - 1) / kTileRows; }

  __device__ int count() const {
    return tiles() / kPair * jobs_.across + tiles() % kPair * ((jobs_.across + kPair - 1) / kPair);
  }

  const Jobs& jobs_;
  int expert_ = 0;
  int first_ = 0;
  int begin_;
  int end_;
};

// The tile of a block.
template <int kColumns>
struct Tile {
  int row;
  int column;

  __device__ Tile(const Job& job, int rank)
      : row(job.row + (job.beside ? 0 : rank * kTileRows)),
        column((job.across + (job.beside ? rank : 0)) * kColumns) {}
};

// Loads all tiles. Rows that are not the expert's may be loaded, too: what is made of them is not stored, nor what is
// made of the second half of a tile's rows where it is not loaded.
template <bool kByColumns, int kColumns>
__device__ void produce(Memory<kColumns>& memory, const CUtensorMap& x, const CUtensorMap& weights, const Jobs& jobs) {
  using Own = Memory<kColumns>;
  constexpr int kBox = kByColumns ? kColumns / kPair : kStepDepth;  // columns that are loaded at once
  constexpr int kBoxes = kColumns / kBox;
  const int rank = rank_in_cluster();
  Turn<Own::kStages> turn;
  Walk walk(jobs);
  Job job;
  for (int index = blockIdx.x / kPair; walk.find(job, index); index += gridDim.x / kPair) {
    const Tile<kColumns> tile(job, rank);
    const int halves = tile.row + kHalfRows < job.end ? kConsumers : 1;
    for (int step = 0; step < jobs.steps; ++step, turn.next()) {
      unsigned char* const left = memory.stages[turn.stage];
      unsigned char* const right = left + Own::kLeftBytes;
      std::uint64_t& full = memory.full[turn.stage];
      const int depth = step * kStepDepth;
      // The first round finds all stages empty: the phase before the first one counts as ended.
      wait(memory.empty[turn.stage], turn.phase ^ 1);
      arrive_and_expect(full, (halves * kHalfRows + kColumns) * kBytes);
#pragma unroll
      for (int half = 0; half < kConsumers; ++half) {
        unsigned char* const to = left + half * kHalfRows * kBytes;
        const int row = tile.row + half * kHalfRows;
        if (half < halves && !job.beside) {
          load(to, x, depth, row, 0, full);
        } else if (half < halves && half == rank) {
          load_for_both(to, x, depth, row, 0, full);
        }
      }
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        unsigned char* const to = right + box * kBox * kBytes;
        const int column = tile.column + box * kBox;
        const int along = kByColumns ? depth : column;
        const int line = kByColumns ? column : depth;
        if (job.beside) {
          load(to, weights, along, line, job.expert, full);
        } else if (box % kPair == rank) {
          load_for_both(to, weights, along, line, job.expert, full);
        }
      }
    }
  }
  // The block stays until the other one has told it that it is done, since its barriers go with it.
  for (int stage = 0; stage < Own::kStages; ++stage, turn.next()) {
    wait(memory.empty[turn.stage], turn.phase ^ 1);
  }
}

inline __device__ __half2 pair_of(__half, float x, float y) { return __floats2half2_rn(x, y); }
inline __device__ __nv_bfloat162 pair_of(__nv_bfloat16, float x, float y) { return __floats2bfloat162_rn(x, y); }

// The output: rows are `aligned` if they begin at multiples of 16 bytes.
struct Output {
  void* first;
  int columns;
  bool aligned;
};

// Where an element of a part lies in shared memory, as TMA swizzles it.
inline __device__ int place_in_part(int row, int byte) { return row * kBytes + (byte / 16 ^ row % 8) * 16 + byte % 16; }

// Stores the rows of a part that the expert has, by threads.
template <typename T>
__device__ void store_part(const unsigned char* result, const Output& output, int row, int rows, int column) {
  const int lane = threadIdx.x % 32;
  T* const to = static_cast<T*>(output.first) + row * static_cast<std::int64_t>(output.columns) + column;
  constexpr int kChunks = kBytes / 16;
  if (output.aligned) {
    const int chunk = lane % kChunks * 16;
#pragma unroll 1
    for (int i = lane / kChunks; i < rows && column + chunk / 2 < output.columns; i += 32 / kChunks) {
      *reinterpret_cast<uint4*>(to + i * static_cast<std::int64_t>(output.columns) + chunk / 2) =
          *reinterpret_cast<const uint4*>(result + place_in_part(i, chunk));
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
#pragma unroll
      for (int k = lane; k < kPartColumns; k += 32) {
        if (column + k < output.columns) {
          to[i * static_cast<std::int64_t>(output.columns) + k] =
              *reinterpret_cast<const T*>(result + place_in_part(i, k * 2));
        }
      }
    }
  }
}

// Eight columns after the other, a quad of threads has two rows of the sums, and each thread a pair in both. They go
// through shared memory, so that whole lines are stored: by TMA if all of a warp's rows are the expert's.
template <typename T, int kSums>
__device__ void put(unsigned char* results, const CUtensorMap& map, const Output& output, const float (&sums)[kSums],
                    int row, int end, int column) {
  constexpr int kEach = kPartRows * kPartColumns / 32;
  constexpr int kCount = kSums / kEach;
  static_assert(kCount % kParts == 0, "the first part of a tile lies where the last but one does");
  const int lane = threadIdx.x % 32;
  const bool by_tma = output.aligned && row + kPartRows <= end;
#pragma unroll
  for (int part = 0; part < kCount; ++part, column += kPartColumns) {
    unsigned char* const result = results + part % kParts * kPartRows * kBytes;
    if (lane == 0) {
      // Stores by threads begin no group that could be counted.
      if (by_tma) {
        wait_for_stores<kParts - 1>();
      } else {
        wait_for_stores<0>();
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      const int at_row = lane / 4 + i / 2 % 2 * 8;
      const int byte = (lane % 4 * 2 + i / 4 * 8) * 2;
      const auto pair = pair_of(T(), sums[part * kEach + i], sums[part * kEach + i + 1]);
      *reinterpret_cast<std::remove_const_t<decltype(pair)>*>(result + place_in_part(at_row, byte)) = pair;
    }
    if (by_tma) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0) {
        store(map, column, row, result);
      }
    } else {
      __syncwarp();
      store_part<T>(result, output, row, min(end - row, kPartRows), column);
    }
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
