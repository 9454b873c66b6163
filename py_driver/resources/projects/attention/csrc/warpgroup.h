[% if cuda %]
// What the kernels for Hopper GPUs share: barriers in shared memory, the Tensor Memory Accelerator (TMA), and products
// of a warpgroup (WGMMA).
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "[[ module ]].h"

namespace [[ module ]]_impl {
[% raw %]

constexpr int kWarpgroup = 128;
constexpr int kSwizzled = 128;  // bytes of a row that TMA swizzles: 64 elements
[% endraw %]
[% include "projects/parts/barriers.cpp" %]
[% raw %]
__device__ inline void arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(&barrier)) : "memory");
}
[% endraw %]
[% include "projects/parts/turn.cpp" %]
[% raw %]
// Barriers that warpgroups share: some threads arrive and go on, others wait for them.
__device__ inline void named_wait(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ inline void named_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// TMA: one thread asks for rows of a head. They lie in shared memory in parts of 64 elements: for each part all rows.
// What lies outside of the tensor is 0.
__device__ inline void load(void* to, const CUtensorMap& map, int row, int head, int batch, std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %2, %4, %5}], [%6];" ::"r"(address_of(to)),
      "l"(&map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(address_of(&barrier))
      : "memory");
}

// `kRows` rows from `row` on of the `rows` from `begin` on, with a map of packed rows: rows after these are 0, too.
template <int kRows>
__device__ void load_within(void* to, const CUtensorMap& map, int begin, int rows, int row, int head,
                            std::uint64_t& barrier) {
  const int there = min(rows - row, kRows);
  load(to, map, kRows - there, head, begin + row + there, barrier);
}

// The same for bytes that lie side by side: a multiple of 16.
__device__ inline void load(void* to, const void* from, int bytes, std::uint64_t& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   address_of(to)),
               "l"(from), "r"(bytes), "r"(address_of(&barrier))
               : "memory");
}

// How WGMMA finds a matrix in shared memory, with TMA's swizzle of 128 bytes: `leading` is the way in bytes to the next
// part of 64 elements, where they are not what is added up over; eight rows lie side by side (PTX ISA, "Matrix
// Descriptor Format").
__device__ inline std::uint64_t descriptor(const void* matrix, int leading = 0) {
  return (address_of(matrix) & 0x3ffffu) >> 4 | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(8 * kSwizzled >> 4) << 32 | std::uint64_t{1} << 62;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all groups of products but the newest `kGroups`.
template <int kGroups>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// What a product writes or reads: nothing that uses it may be moved before the wait, and no register be used again.
template <int kCount>
__device__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+f"(values[i])::"memory");
  }
}

template <int kCount>
__device__ void pin(unsigned (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+r"(values[i])::"memory");
  }
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

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// sums = a @ b + (more ? sums : 0), for 64 rows, kColumns columns and 16 of the depth. It runs on after the call. Row i
// of a thread's warp and its columns: sums[4 * j] and [4 * j + 1] are of row lane / 4 and columns 8 * j + lane % 4 * 2
// and the next, sums[4 * j + 2] and [4 * j + 3] of the row eight below.
template <typename T, int kColumns>
struct Product;

// clang-format off
#define FOUR(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define SIXTEEN(i) FOUR(i), FOUR((i) + 4), FOUR((i) + 8), FOUR((i) + 12)
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN((i) + 16)
#define SUMS_16 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SUMS_32 SUMS_16 ", " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SUMS_64 SUMS_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_128 SUMS_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_40 SUMS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define SUMS_88 SUMS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87"

// PRODUCT(type, its name in PTX, columns, sums, their list, their operands, the numbers of the operands after them)
#define PRODUCT(T, name, columns, count, list, operands, n0, n1, n2, n3, n4, n5, n6)                                   \
  template <>                                                                                                          \
  struct Product<T, columns> {                                                                                         \
    template <bool kLeftByColumns, bool kRightByRows>                                                                  \
    static __device__ void of(float (&sums)[count], std::uint64_t a, std::uint64_t b, bool more) {                     \
      asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, %" #n2 ", 0;\n"                                             \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" list "}, "               \
                   "%" #n0 ", %" #n1 ", more, 1, 1, %" #n3 ", %" #n4 ";\n}\n"                                          \
                   : operands                                                                                          \
                   : "l"(a), "l"(b), "r"(static_cast<int>(more)), "n"(int{kLeftByColumns}), "n"(int{kRightByRows}));   \
    }                                                                                                                  \
    template <bool kRightByRows>                                                                                       \
    static __device__ void of(float (&sums)[count], const unsigned* a, std::uint64_t b) {                              \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" list "}, "               \
                   "{%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", 1, 1, 1, %" #n5 ";\n"                          \
                   : operands                                                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(int{kRightByRows}));                      \
    }                                                                                                                  \
  };
#define OPERANDS_32 THIRTY_TWO(0)
PRODUCT(__half, "f16", 64, 32, SUMS_32, OPERANDS_32, 32, 33, 34, 35, 36, 37, 38)
PRODUCT(__nv_bfloat16, "bf16", 64, 32, SUMS_32, OPERANDS_32, 32, 33, 34, 35, 36, 37, 38)
#define OPERANDS_40 THIRTY_TWO(0), FOUR(32), FOUR(36)
PRODUCT(__half, "f16", 80, 40, SUMS_40, OPERANDS_40, 40, 41, 42, 43, 44, 45, 46)
PRODUCT(__nv_bfloat16, "bf16", 80, 40, SUMS_40, OPERANDS_40, 40, 41, 42, 43, 44, 45, 46)
#define OPERANDS_64 THIRTY_TWO(0), THIRTY_TWO(32)
PRODUCT(__half, "f16", 128, 64, SUMS_64, OPERANDS_64, 64, 65, 66, 67, 68, 69, 70)
PRODUCT(__nv_bfloat16, "bf16", 128, 64, SUMS_64, OPERANDS_64, 64, 65, 66, 67, 68, 69, 70)
#define OPERANDS_88 OPERANDS_64, SIXTEEN(64), FOUR(80), FOUR(84)
PRODUCT(__half, "f16", 176, 88, SUMS_88, OPERANDS_88, 88, 89, 90, 91, 92, 93, 94)
PRODUCT(__nv_bfloat16, "bf16", 176, 88, SUMS_88, OPERANDS_88, 88, 89, 90, 91, 92, 93, 94)
#define OPERANDS_128 OPERANDS_64, THIRTY_TWO(64), THIRTY_TWO(96)
PRODUCT(__half, "f16", 256, 128, SUMS_128, OPERANDS_128, 128, 129, 130, 131, 132, 133, 134)
PRODUCT(__nv_bfloat16, "bf16", 256, 128, SUMS_128, OPERANDS_128, 128, 129, 130, 131, 132, 133, 134)
// clang-format on

[% endraw %]
}  // namespace [[ module ]]_impl
[% endif %]
