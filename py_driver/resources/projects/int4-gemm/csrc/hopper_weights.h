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

// The value, from a lane of the warp: its own. The compiler cannot know that, so it keeps the value in a register and
// does not compute it anew in each step.
template <typename T>
__device__ T kept(T value) {
  return __shfl_sync(0xffffffffu, value, threadIdx.x % 32);
}

template <typename T>
__device__ const T* kept(const T* pointer) {
  return reinterpret_cast<const T*>(kept(reinterpret_cast<unsigned long long>(pointer)));
}

// Makes numbers of T of the two weights in a byte of a word: which byte depends on the lane. A weight w, with its sign
// bit flipped, is w + 8; as the lowest bits of 1024 (128 for bfloat16) it is exact. Bits 4 to 7 of 1024 stand for
// 16 * (w + 8): the product by 1 / 16 is exact too. bfloat16 has no such bits, so the word is shifted.
template <typename T>
struct Converter {
  static constexpr bool kHalf = std::is_same_v<T, __half>;
  static constexpr unsigned kMask = kHalf ? 0x00f0000fu : 0x000f000fu;

  unsigned bytes = kept(threadIdx.x % 4 * 0x1111u | (kHalf ? 0x4040u : 0x4400u));
  unsigned flipped = kept(kHalf ? 0x64806408u : 0x43084308u);
  unsigned factors = kept(0x2c003c00u);  // 1 and 1 / 16

  // Times their scale, rounded once.
  __device__ unsigned operator()(unsigned word, T scale) const {
    const unsigned selected = __byte_perm(word, kHalf ? 0 : word >> 4, bytes);
    unsigned biased;  // (selected & kMask) ^ flipped
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(biased) : "r"(selected), "n"(kMask), "r"(flipped));
    if constexpr (kHalf) {
      const __half2 weights =
          __hfma2(*reinterpret_cast<const __half2*>(&biased), *reinterpret_cast<const __half2*>(&factors),
                  __floats2half2_rn(-1032.0f, -72.0f));
      const __half2 result = __hmul2(weights, __half2half2(scale));
      return *reinterpret_cast<const unsigned*>(&result);
    } else {
      const __nv_bfloat162 weights =
          __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&biased), __float2bfloat162_rn(136.0f));
      const __nv_bfloat162 result = __hmul2(weights, __bfloat162bfloat162(scale));
      return *reinterpret_cast<const unsigned*>(&result);
    }
  }
};

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
      : rows{kept(first), kept(second)},
        groups(groups),
        halves(halves),
        group(2 * step / halves),
        within(2 * step % halves) {
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

// Where the first of two rows of a thread lies, from the first row of a warp. TMA swaps both halves of a row in every
// other four rows, so that a warp reads from all banks.
inline __device__ int place_in_warp(int half) {
  const int lane = threadIdx.x % 32;
  return lane / 4 * kStepBytes + (half ^ lane / 16) * (kStepBytes / 2);
}

inline __device__ void read(Packed& packed, const unsigned char* from) {
  packed.rows[0] = *reinterpret_cast<const uint4*>(from);
  packed.rows[1] = *reinterpret_cast<const uint4*>(from + 8 * kStepBytes);
}

// What a thread of a warpgroup gives to a product: of rows lane / 4 and the row eight below. It is made of half a step,
// `second` says of which 16 columns.
using Fragment = unsigned[4];

template <typename T>
__device__ void make(Fragment& fragment, const Packed& packed, const T (&scales)[2], bool second,
                     const Converter<T>& numbers) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const uint4& words = packed.rows[row];
    fragment[row] = numbers(second ? words.z : words.x, scales[row]);
    fragment[2 + row] = numbers(second ? words.w : words.y, scales[row]);
  }
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
