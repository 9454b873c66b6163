[% if cuda %]
// The instructions of GPUs of capability 10.0 that C++ has no functions for. What stands in quotation marks is a
// section of the PTX ISA, chapter "TensorCore 5th Generation Family Instructions".
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace [[ module ]]_impl {

[% include "projects/parts/tma.cpp" %]
[% raw %]
inline __device__ void arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(&barrier)) : "memory");
}

// True in one thread of a warp whose threads are all here.
inline __device__ bool is_elected() {
  unsigned elected;
  asm volatile(
      "{\n"
      ".reg .pred one;\n"
      "elect.sync _|one, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, one;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// What this thread has written to shared memory is there for TMA.
inline __device__ void show_to_tma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A whole warp asks for columns of tensor memory, and waits while another block has them. Their address comes to shared
// memory: the lane in the upper half, the column in the lower ("Tensor Memory Addressing", "tcgen05.alloc").
template <int kColumns>
__device__ void allocate(unsigned& tensor) {
  static_assert(kColumns >= 32 && kColumns <= 512 && (kColumns & (kColumns - 1)) == 0, "a power of two");
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(address_of(&tensor)),
               "n"(kColumns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

// The same warp gives them back, which it must.
template <int kColumns>
__device__ void release(unsigned tensor) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tensor), "n"(kColumns) : "memory");
}

// Around whatever else threads synchronize with, so that it orders their accesses to tensor memory ("Canonical
// synchronization patterns"). `commit` does the first by itself.
inline __device__ void before_synchronization() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
inline __device__ void after_synchronization() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// How a product finds a matrix in shared memory that TMA has swizzled by 128 bytes ("Shared memory descriptor"):
//   bits 0-13   its address / 16
//   bits 16-29  leading / 16: the way to the next 64 columns where columns lie side by side, and 1 where the depth does
//   bits 32-45  stride / 16: the way to the next eight rows of 128 bytes
//   bits 46-48  always 1
//   bits 49-51  0: eight rows of 128 bytes begin at a multiple of 1024, wherever the matrix begins within the first
//   bit 52      0: leading is a way, no address
//   bits 53-60  always 0
//   bits 61-63  2: swizzled by 128 bytes, 16 bytes at a time
// CUTLASS has the same fields in `UMMA::SmemDescriptor`, and the same ways in `make_umma_desc`.
inline __device__ std::uint64_t descriptor(const void* matrix, int leading, int stride) {
  return (address_of(matrix) & 0x3ffffu) >> 4 | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | std::uint64_t{1} << 46 | std::uint64_t{2} << 61;
}

// What kind of product it is ("Instruction descriptor", the column of `.kind::f16`; `UMMA::InstrDescriptor`):
//   bits 0-3    0: no zeros are left out, and no integers saturated
//   bits 4-5    1: sums are float32
//   bits 7-9    the type of a: 0 is float16, 1 is bfloat16
//   bits 10-12  the type of b
//   bits 13-14  0: neither is negated
//   bit 15      0: of a the depth lies side by side
//   bit 16      1 if of b the columns lie side by side ("transpose"), 0 if the depth does
//   bits 17-22  columns / 8
//   bits 24-28  rows / 16
//   bits 30-31  0, and so are 6, 23 and 29
template <typename T, bool kByColumns, int kHigh, int kWide>
constexpr unsigned kKind = 1u << 4 | (std::is_same_v<T, __nv_bfloat16> ? 1u << 7 | 1u << 10 : 0u) |
                           (kByColumns ? 0u : 1u << 16) | static_cast<unsigned>(kWide / 8) << 17 |
                           static_cast<unsigned>(kHigh / 16) << 24;

// tensor = a @ b + (more ? tensor : 0), for 16 of the depth. One thread asks for it, and it runs on after the call; the
// next one for the same sums waits for it.
inline __device__ void multiply(unsigned tensor, std::uint64_t a, std::uint64_t b, unsigned kind, bool more) {
  asm volatile(
      "{\n"
      ".reg .pred more;\n"
      "setp.ne.b32 more, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, more;\n"
      "}\n" ::"r"(tensor),
      "l"(a), "l"(b), "r"(kind), "r"(static_cast<int>(more))
      : "memory");
}

// Arrives at a barrier once all products are done that this thread has asked for.
inline __device__ void commit(std::uint64_t& barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(address_of(&barrier))
               : "memory");
}

// clang-format off
#define NAMES_64                                                                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                             \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                   \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                   \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FOUR(i)                                                                                                        \
  "=f"(sums[i]), "=f"(sums[(i) + 1]), "=f"(sums[(i) + 2]), "=f"(sums[(i) + 3])
#define SIXTEEN(i)                                                                                                     \
  FOUR(i), FOUR((i) + 4), FOUR((i) + 8), FOUR((i) + 12)
// clang-format on

// 64 columns of 32 lanes to a warp: each thread gets those of the lane that has its number. The warp's own lanes are 32
// times its number, modulo 4 ("Access restrictions", "Matrix fragments for shape .32x32b"). The wait is in the same
// statement, so that nothing that reads the sums can come before it.
inline __device__ void fetch(float (&sums)[64], unsigned tensor) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x64.b32 {" NAMES_64 "}, [%64];\n"
               "tcgen05.wait::ld.sync.aligned;"
               : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
               : "r"(tensor)
               : "memory");
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
