[% if cuda %]
// What a block makes of the output, where numbers lie in its shared memory, and how they come there and leave.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ampere_ptx.h"

namespace [[ module ]]_impl::ampere {
[% raw %]

// A block makes kRows x kColumns of the output, each of its warps a part of that in registers, in steps of kStepBytes
// of the depth. kStages steps are in shared memory: one is multiplied, the others are read. kBlocks are on a
// multiprocessor at the same time.
template <int kRowsOf, int kColumnsOf, int kWarpRowsOf, int kWarpColumnsOf, int kStepBytesOf, int kStagesOf,
          int kBlocksOf>
struct Tile {
  static constexpr int kRows = kRowsOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kWarpRows = kWarpRowsOf;
  static constexpr int kWarpColumns = kWarpColumnsOf;
  static constexpr int kStepBytes = kStepBytesOf;
  static constexpr int kStages = kStagesOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr bool kAligned = true;  // whether all rows of both matrices are
  static constexpr int kWarpsAcross = kColumns / kWarpColumns;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * kWarpsAcross;
  static constexpr int kLeftBytes = kRows * kStepBytes;
  static constexpr int kStageBytes = kLeftBytes + kColumns * kStepBytes;
  // Each warp brings its sums in order in shared memory, 16 rows at a time.
  static constexpr int kResultBytes = kThreads / 32 * 16 * (kWarpColumns * 4 + kChunk);
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kResultBytes <= kSharedBytes);

  // With fewer steps than stages a block needs less, so that more blocks are on a multiprocessor.
  static int shared_bytes(std::int64_t steps) {
    return std::max(kStageBytes * static_cast<int>(std::clamp<std::int64_t>(steps, 1, kStages)), kResultBytes);
  }
};

// A part of a matrix in shared memory: kLines of its lines, kBytes of each. Chunks of a line are moved so that the
// eight that `ldmatrix` or a quarter of a warp's copies touch at once are in different banks. Those are the same chunk
// of lines 0 to 7, or with kPairs of lines 0, 1, 4, 5, 8, 9, 12 and 13, or two after each.
template <int kLinesOf, int kBytesOf, bool kPairs>
struct Part {
  static constexpr int kLines = kLinesOf;
  static constexpr int kBytes = kBytesOf;
  static constexpr int kChunks = kBytes / kChunk;
  static constexpr int kSame = kPairs ? 16 : 8;  // lines after which the chunks are moved alike

  __device__ static int place(int line, int chunk) {
    const int moved = kPairs ? (line & 1) | (line >> 1 & 6) : line & 7;
    // Two lines of four chunks fill all banks: bit 0 of the line says which half.
    return line * kBytes + (chunk ^ (kChunks == 4 ? moved >> 1 : moved)) * kChunk;
  }
};

// Brings such parts of a matrix, one after the other: along its lines, or across them. Its lines begin `pitch` numbers
// after each other, which is whole chunks.
template <typename T, class Part, int kThreads, bool kAlong>
class Reader {
 public:
  __device__ Reader(const T* matrix, std::int64_t line, std::int64_t column, std::int64_t lines, std::int64_t length,
                    std::int64_t pitch)
      : from_(matrix + (line + own_line()) * pitch + column + own_column()),
        lines_left_(lines - line - own_line()),
        left_of_line_(length - column - own_column()),
        pitch_(pitch),
        to_(Part::place(own_line(), threadIdx.x % Part::kChunks)) {}

  // What lies outside of the matrix is 0.
  __device__ void next(unsigned shared) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      copy_later(shared + to_ + i * kBetween * Part::kBytes, from_ + i * kBetween * pitch_,
                 i * kBetween < lines_left_ && left_of_line_ > 0);
    }
    if constexpr (kAlong) {
      from_ += kForward;
      left_of_line_ -= kForward;
    } else {
      from_ += Part::kLines * pitch_;
      lines_left_ -= Part::kLines;
    }
  }

 private:
  static constexpr int kWide = kChunk / sizeof(T);
  static constexpr int kForward = Part::kBytes / sizeof(T);
  static constexpr int kEach = Part::kLines * Part::kChunks / kThreads;
  static constexpr int kBetween = kThreads / Part::kChunks;  // lines between two chunks of a thread
  static_assert(kBetween % Part::kSame == 0 && kEach * kBetween == Part::kLines);

  __device__ static int own_line() { return threadIdx.x / Part::kChunks; }
  __device__ static int own_column() { return threadIdx.x % Part::kChunks * kWide; }

  const T* from_;
  std::int64_t lines_left_;
  std::int64_t left_of_line_;
  std::int64_t pitch_;
  int to_;
};

// Writes two neighbours of a row.
inline __device__ void put(__half* to, const float* sums) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(sums[0], sums[1]);
}
inline __device__ void put(__nv_bfloat16* to, const float* sums) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(sums[0], sums[1]);
}
inline __device__ void put(float* to, const float* sums) {
  *reinterpret_cast<float2*>(to) = make_float2(sums[0], sums[1]);
}
inline __device__ void put(__half* to, const __half2* sums) { *reinterpret_cast<__half2*>(to) = *sums; }
inline __device__ void put(int* to, const int* sums) { *reinterpret_cast<int2*>(to) = make_int2(sums[0], sums[1]); }

// The same of even and of odd columns: four neighbours. A function, since nvcc 11.8 checks even what `multiply` leaves
// out.
inline __device__ void put_pairs(int* to, const int* even, const int* odd) {
  *reinterpret_cast<int4*>(to) = make_int4(even[0], odd[0], even[1], odd[1]);
}

// Writes a warp's 16 rows of the output, which lie in shared memory with `kPitch` numbers to a row.
template <int kColumns, int kPitch, typename Out>
__device__ void store(Out* out, const Out* from, std::int64_t rows, std::int64_t columns, std::int64_t pitch,
                      bool aligned) {
  constexpr int kWide = kChunk / sizeof(Out);
  const int lane = threadIdx.x % 32;
  if (aligned) {
#pragma unroll 1
    for (int i = lane * kWide; i < 16 * kColumns; i += 32 * kWide) {
      const int row = i / kColumns;
      const int column = i % kColumns;
      if (row < rows && column < columns) {
        *reinterpret_cast<uint4*>(out + row * pitch + column) =
            *reinterpret_cast<const uint4*>(from + row * kPitch + column);
      }
    }
  } else {
#pragma unroll 1
    for (int i = lane; i < 16 * kColumns; i += 32) {
      const int row = i / kColumns;
      const int column = i % kColumns;
      if (row < rows && column < columns) {
        out[row * pitch + column] = from[row * kPitch + column];
      }
    }
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
