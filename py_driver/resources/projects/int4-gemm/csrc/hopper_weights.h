[% if cuda %]
// How weights of four bits get from shared memory to registers, as the first matrix of WGMMA.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace [[ module ]]_impl {
[% raw %]

// A step of the depth: 32 bytes of weights for each row.
constexpr int kStep = 64;
constexpr int kStepBytes = kStep / 2;
constexpr int kWays = kStep / 16;  // products of a step: WGMMA has a depth of 16

// (word & mask) ^ flipped, in one instruction.
template <unsigned kMask, unsigned kFlipped>
__device__ unsigned masked(unsigned word) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(word), "n"(kMask), "n"(kFlipped));
  return result;
}

// The two weights in a byte of the word, as floating point numbers: `quarter` says which byte. A weight w, with its sign
// bit flipped, is w + 8; as the lowest bits of 1024 (128 for bfloat16) it is exact. Bits 4 to 7 of 1024 stand for
// 16 * (w + 8): the product by 1 / 16 is exact too. bfloat16 has no such bits.
template <typename T>
__device__ auto weights_of(unsigned word, unsigned quarter) {
  if constexpr (std::is_same_v<T, __half>) {
    const unsigned bytes = __byte_perm(word, 0, quarter * 0x101u | 0x4040u);
    const unsigned biased = masked<0x00f0000fu, 0x64806408u>(bytes);
    return __hfma2(*reinterpret_cast<const __half2*>(&biased), __floats2half2_rn(1.0f, 0.0625f),
                   __floats2half2_rn(-1032.0f, -72.0f));
  } else {
    const unsigned bytes = __byte_perm(word, word >> 4, quarter * 0x1111u | 0x4400u);
    const unsigned biased = masked<0x000f000fu, 0x43084308u>(bytes);
    return __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&biased), __float2bfloat162_rn(136.0f));
  }
}

// Two weights times their scale, rounded once.
template <typename T>
__device__ unsigned scaled(unsigned word, unsigned quarter, T scale) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 result = __hmul2(weights_of<T>(word, quarter), __half2half2(scale));
    return *reinterpret_cast<const unsigned*>(&result);
  } else {
    const __nv_bfloat162 result = __hmul2(weights_of<T>(word, quarter), __bfloat162bfloat162(scale));
    return *reinterpret_cast<const unsigned*>(&result);
  }
}

// Scales of a thread's two rows, step after step. `fetch` asks for those of the next step while this one is multiplied.
template <typename T>
struct Scales {
  const T* rows[2];
  int groups;
  int halves;  // half steps of a group
  int group;
  int within;   // of the group: the next half step
  T next[2][2];  // of both half steps, and both rows

  __device__ Scales(const T* first, const T* second, int groups, int halves, int step)
      : rows{first, second}, groups(groups), halves(halves), group(2 * step / halves), within(2 * step % halves) {
    load(next[0]);
    pass();
    load(next[1]);
    pass();
  }

  __device__ void fetch() {
    const bool fresh = within == 0;
    if (fresh) {
      load(next[0]);
    } else {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        next[0][row] = next[1][row];
      }
    }
    pass();
    if (fresh || within == 0) {
      load(next[1]);
    }
    pass();
  }

 private:
  // What is beyond the depth has the weight 0, and the scale as well: another one could be infinite.
  __device__ void load(T (&scales)[2]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      scales[row] = group < groups ? rows[row][group] : T(0.0f);
    }
  }

  __device__ void pass() {
    if (++within == halves) {
      within = 0;
      ++group;
    }
  }
};

// Weights as they lie in memory: 32 of both rows of a thread, half a step.
struct Packed {
  uint4 rows[2];
};

// From `first` and eight rows below it. TMA swaps both halves of a row in every other four rows, so that a warp reads
// from all banks.
inline __device__ void read(Packed& packed, const unsigned char* first, int half) {
  const int lane = threadIdx.x % 32;
  const unsigned char* const from = first + lane / 4 * kStepBytes + (half ^ lane / 16) * (kStepBytes / 2);
  packed.rows[0] = *reinterpret_cast<const uint4*>(from);
  packed.rows[1] = *reinterpret_cast<const uint4*>(from + 8 * kStepBytes);
}

// What a thread of a warpgroup gives to a product, and how it is made of half a step: `second` says of which 16 columns.
// Its rows are lane / 4 and the row eight below.
using Fragment = unsigned[4];

template <typename T>
__device__ void make(Fragment& fragment, const Packed& packed, const T (&scales)[2], bool second) {
  const unsigned quarter = threadIdx.x % 4;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const uint4& words = packed.rows[row];
    fragment[row] = scaled<T>(second ? words.z : words.x, quarter, scales[row]);
    fragment[2 + row] = scaled<T>(second ? words.w : words.y, quarter, scales[row]);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
