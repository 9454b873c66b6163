[% if cuda %]
// The kernel that multiplies, for [[ module ]].cu.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "[[ module ]].h"
#include "ampere_odd.h"
#include "ampere_ptx.h"
#include "ampere_tiles.h"

namespace [[ module ]]_impl::ampere {
[% raw %]

// Blocks that run at the same time share rows of a and columns of b in the L2 cache: see `multiply`.
constexpr unsigned kGroup = 8;

// Where the matrices of a product lie. Rows of `a` and `sums` and lines of `b` begin so many numbers after each other.
// With more than one split the sums of each follow those of the one before, and `out` is not written.
template <typename In, typename Sum, typename Out>
struct Operands {
  const In* a;
  const In* b;
  Out* out;
  Sum* sums;
  std::int64_t a_pitch;
  std::int64_t b_pitch;
  std::int64_t sums_pitch;
  bool aligned_out;
  int steps;  // of each split, but the first `more` have one more
  int more;
};

// A tile of the output for blockIdx.x, and the part of the depth for blockIdx.y.
template <typename In, typename Sum, typename Out, bool kByColumns, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    multiply(const __grid_constant__ Operands<In, Sum, Out> operands, const __grid_constant__ Sizes sizes) {
  using Bits = std::conditional_t<sizeof(In) == 1, unsigned char, unsigned short>;
  // `ldmatrix` transposes numbers of 16 bits: of 8 bits it moves pairs, see below.
  constexpr bool kPairs = sizeof(In) == 1 && !kByColumns;
  constexpr int kStepBytes = Tile::kStepBytes;
  constexpr int kStep = kStepBytes / sizeof(In);
  constexpr int kPart = kPartBytes / sizeof(In);
  constexpr int kParts = kStepBytes / kPartBytes;
  constexpr int kDown = Tile::kWarpRows / 16;
  constexpr int kAcross = Tile::kWarpColumns / 8;
  static_assert(kParts % 2 == 0 && kAcross % 2 == 0);
  using Left = Part<Tile::kRows, kStepBytes, false>;
  using Right = std::conditional_t<kByColumns, Part<Tile::kColumns, kStepBytes, false>,
                                   Part<kStep, Tile::kColumns * sizeof(In), kPairs>>;
  extern __shared__ __align__(128) unsigned char shared[];

  // Tiles are made in groups of kGroup rows of them, each column by column.
  const auto tiles_down = static_cast<unsigned>((sizes.rows + Tile::kRows - 1) / Tile::kRows);
  const auto tiles_across = static_cast<unsigned>((sizes.columns + Tile::kColumns - 1) / Tile::kColumns);
  const unsigned most = min(kGroup, tiles_down);  // so that the product does not overflow for very many columns
  const unsigned group = blockIdx.x / (most * tiles_across) * kGroup;
  const unsigned in_group = blockIdx.x % (most * tiles_across);
  const unsigned height = min(tiles_down - group, kGroup);
  const std::int64_t first_row = static_cast<std::int64_t>(group + in_group % height) * Tile::kRows;
  const std::int64_t first_column = static_cast<std::int64_t>(in_group / height) * Tile::kColumns;

  const int split = static_cast<int>(blockIdx.y);
  const int steps = operands.steps + (split < operands.more ? 1 : 0);
  const std::int64_t first_k =
      (static_cast<std::int64_t>(split) * operands.steps + min(split, operands.more)) * kStep;
  using LeftReader = std::conditional_t<Tile::kAligned, Reader<Bits, Left, Tile::kThreads, true>,
                                        OddReader<Bits, Left, Tile::kThreads, true>>;
  using RightReader = std::conditional_t<Tile::kAligned, Reader<Bits, Right, Tile::kThreads, kByColumns>,
                                         OddReader<Bits, Right, Tile::kThreads, kByColumns>>;
  LeftReader left(reinterpret_cast<const Bits*>(operands.a), first_row, first_k,
                                                sizes.rows, sizes.depth, operands.a_pitch);
  RightReader right(
      reinterpret_cast<const Bits*>(operands.b), kByColumns ? first_column : first_k,
      kByColumns ? first_k : first_column, kByColumns ? sizes.columns : sizes.depth,
      kByColumns ? sizes.depth : sizes.columns, operands.b_pitch);
  const unsigned stages = address_of(shared);
  int next_step = 0;
  const auto read_next = [&](int stage) {
    if (next_step < steps) {
      if constexpr (Tile::kAligned) {
        left.next(stages + stage * Tile::kStageBytes);
        right.next(stages + stage * Tile::kStageBytes + Tile::kLeftBytes);
      } else {
        left.next();
        right.next();
      }
    }
    ++next_step;
    close_group();
  };
  // The oldest step that was not multiplied is then there, for this thread's part.
  const auto wait_for_step = [&](int stage) {
    if constexpr (Tile::kAligned) {
      wait_for_groups<Tile::kStages - 2>();
    } else if (next_step <= steps) {
      left.put(shared + stage * Tile::kStageBytes);
      right.put(shared + stage * Tile::kStageBytes + Tile::kLeftBytes);
    }
  };

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int down = warp / Tile::kWarpsAcross * Tile::kWarpRows;
  const int across = warp % Tile::kWarpsAcross * Tile::kWarpColumns;
  // What a warp multiplies next, and what it multiplies now.
  unsigned from_left[2][kDown][4];
  unsigned from_right[2][kAcross][2];
  const auto load_part = [&](int stage, int part) {
    const unsigned left_at = stages + stage * Tile::kStageBytes;
    const unsigned right_at = left_at + Tile::kLeftBytes;
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      load_matrices<false>(from_left[part % 2][i],
                           left_at + Left::place(down + lane % 16, part * 2 + lane / 16) + i * 16 * kStepBytes);
    }
#pragma unroll
    for (int j = 0; j < kAcross; j += 2) {
      auto& even = from_right[part % 2][j];
      auto& odd = from_right[part % 2][j + 1];
      unsigned four[4];
      if constexpr (kByColumns) {
        load_matrices<false>(four, right_at + j * 8 * kStepBytes +
                                       Right::place(across + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2));
      } else if constexpr (!kPairs) {
        load_matrices<true>(four, right_at + part * kPart * Right::kBytes +
                                      Right::place(lane % 16, across / 8 + j + lane / 16));
      } else {
        // Lane t % 4 needs lines 4t to 4t + 3: the first matrix has two of them, the second the other two, of two
        // neighbouring columns each. So the even columns of 16 go into one product, and the odd ones into the next.
        const int line = lane / 16 * 16 + lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2;
        unsigned pairs[4];
        load_matrices<true>(pairs,
                            right_at + part * kPart * Right::kBytes + Right::place(line, across / 16 + j / 2));
        four[0] = __byte_perm(pairs[0], pairs[1], 0x6420);
        four[1] = __byte_perm(pairs[2], pairs[3], 0x6420);
        four[2] = __byte_perm(pairs[0], pairs[1], 0x7531);
        four[3] = __byte_perm(pairs[2], pairs[3], 0x7531);
      }
      even[0] = four[0];
      even[1] = four[1];
      odd[0] = four[2];
      odd[1] = four[3];
    }
  };

  std::conditional_t<std::is_same_v<Sum, __half>, __half2[2], Sum[4]> sums[kDown][kAcross] = {};
  const auto multiply_part = [&](int part) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        multiply_add<In>(sums[i][j], from_left[part % 2][i], from_right[part % 2][j]);
      }
    }
  };

#pragma unroll 1
  for (int stage = 0; stage < Tile::kStages - 1; ++stage) {
    read_next(stage);
  }
  wait_for_step(0);
  __syncthreads();
  load_part(0, 0);
  const int used_stages = min(steps, Tile::kStages);
  int stage = 0;
  int free_stage = Tile::kStages - 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part == kParts - 1) {
        // The next step is there, and all warps have loaded what they need of this one: its place is free.
        wait_for_step(free_stage);
        __syncthreads();
        free_stage = stage;
        stage = stage + 1 < used_stages ? stage + 1 : 0;
      }
      load_part(stage, (part + 1) % kParts);
      if (part == 0) {
        read_next(free_stage);
      }
      multiply_part(part);
    }
  }
  wait_for_groups<0>();
  __syncthreads();

  // Through shared memory, so that lanes beside each other write what lies side by side.
  const auto write = [&](auto* const out, std::int64_t pitch, bool aligned) {
    using To = std::remove_reference_t<decltype(*out)>;
    constexpr int kPitch = Tile::kWarpColumns + kChunk / sizeof(To);
    static_assert(Tile::kThreads / 32 * 16 * kPitch * sizeof(To) <= Tile::kResultBytes);
    To* const result = reinterpret_cast<To*>(shared) + warp * 16 * kPitch;
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; j += 2) {
#pragma unroll
        for (int below = 0; below < 2; ++below) {
          constexpr int kEach = sizeof(sums[0][0]) / sizeof(sums[0][0][0]) / 2;
          const auto* const even = sums[i][j] + below * kEach;
          const auto* const odd = sums[i][j + 1] + below * kEach;
          To* const to = result + (lane / 4 + below * 8) * kPitch + j * 8;
          if constexpr (kPairs) {
            put_pairs(to + lane % 4 * 4, even, odd);
          } else {
            put(to + lane % 4 * 2, even);
            put(to + lane % 4 * 2 + 8, odd);
          }
        }
      }
      __syncwarp();
      const std::int64_t row = first_row + down + i * 16;
      const std::int64_t column = first_column + across;
      store<Tile::kWarpColumns, kPitch>(out + row * pitch + column, result, sizes.rows - row, sizes.columns - column,
                                        pitch, aligned);
      __syncwarp();
    }
  };
  if (gridDim.y == 1) {
    write(operands.out, sizes.columns, operands.aligned_out);
  } else {
    write(operands.sums + split * sizes.rows * operands.sums_pitch, operands.sums_pitch, true);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
