[% if cuda %]
// Instructions of a warp and of a thread, from the architecture 8.0 on.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace [[ module ]]_impl {
[% raw %]

inline __device__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <typename T>
__device__ unsigned pair_of(float x, float y) {
  std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162> pair;
  if constexpr (std::is_same_v<T, __half>) {
    pair = __floats2half2_rn(x, y);
  } else {
    pair = __floats2bfloat162_rn(x, y);
  }
  return *reinterpret_cast<unsigned*>(&pair);
}

// sums += a @ b: 16 x 8, with a depth of 16.
template <typename T>
__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// For data that is read once: the L2 cache drops it before all else.
inline __device__ std::uint64_t read_once() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// 16 bytes of a tensor to shared memory, or zeros. Through L1 (`ca`) a line costs one lookup in the L2 cache, around it
// (`cg`) two, and on an H200 these lookups are the limit: 3.75 and 3.1 TB/s.
inline __device__ void copy(uint4* to, const void* from, bool there, std::uint64_t policy) {
  asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(there ? 16 : 0), "l"(policy)
               : "memory");
}

inline __device__ void end_of_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of this thread but the last ones.
template <int kGroups>
__device__ void wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
