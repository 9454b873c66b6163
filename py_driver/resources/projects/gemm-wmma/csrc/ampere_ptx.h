[% if cuda %]
// The instructions of the kernel: copies that run on, matrices on the way to registers, products.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace [[ module ]]_impl::ampere {
[% raw %]

// The unit of all copies and of `ldmatrix`, in bytes; what `mma` multiplies at once is two of them deep, for each type.
constexpr int kChunk = 16;
constexpr int kPartBytes = 2 * kChunk;

inline __device__ unsigned address_of(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// From device memory to shared memory without a register between, some time before `wait_for_groups` returns. Zeros
// are written in the place of what is not there.
inline __device__ void copy_later(unsigned to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? kChunk : 0)
               : "memory");
}

// Ends a group of copies.
inline __device__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all of this thread's groups are there but the last `kOthers`.
template <int kOthers>
__device__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOthers) : "memory");
}

// Four matrices of 8 x 8 numbers of 16 bits. Each lane has the address of a row: lanes 0 to 7 of the first matrix, and
// so on. It gets numbers 2 * (lane % 4) and the next of row lane / 4: or, transposed, of that column.
template <bool kTransposed>
__device__ void load_matrices(unsigned (&to)[4], unsigned from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  }
}

// Sums of 16 x 8 of the output: of row lane / 4 columns 2 * (lane % 4) and the next, then the same eight rows below.
#define MULTIPLY_ADD(types, kind)                                                                              \
  asm volatile("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"      \
               : kind(sums[0]), kind(sums[1]), kind(sums[2]), kind(sums[3])                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <typename In>
__device__ void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (std::is_same_v<In, __half>) {
    MULTIPLY_ADD("m16n8k16.row.col.f32.f16.f16.f32", "+f");
  } else {
    MULTIPLY_ADD("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
  }
}

template <typename In>
__device__ void multiply_add(int (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  MULTIPLY_ADD("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}

// Two sums of float16 in a register.
template <typename In>
__device__ void multiply_add(__half2 (&sums)[2], const unsigned (&a)[4], const unsigned (&b)[2]) {
  auto& bits = reinterpret_cast<unsigned(&)[2]>(sums);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(bits[0]), "+r"(bits[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
