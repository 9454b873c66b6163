[% if cuda %]
// The instructions of Hopper GPUs that C++ has no functions for.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

namespace [[ module ]]_impl {

[% include "projects/parts/tma.cpp" %]
[% raw %]
// Arrives at the same barrier of another block of the cluster, or of this one.
inline __device__ void arrive(std::uint64_t& barrier, int block) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(address_of(&barrier)),
      "r"(block)
      : "memory");
}

inline __device__ int blocks_of_cluster() {
  unsigned count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return static_cast<int>(count);
}

inline __device__ int rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// Until all threads of the cluster are here; barriers that `publish` was called for are there then.
inline __device__ void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same, and what each has written to shared memory can be read by all.
inline __device__ void share_in_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Reads four numbers at the same place in the shared memory of another block of the cluster, or of this one.
template <typename T>
__device__ void load_from(T (&values)[4], const T* shared, int block) {
  static_assert(sizeof(T) == 4, "a register");
  unsigned bits[4];
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [there];\n"
      "}\n"
      : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
      : "r"(address_of(shared)), "r"(block)
      : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      values[i] = __uint_as_float(bits[i]);
    } else {
      values[i] = static_cast<T>(bits[i]);
    }
  }
}

[% endraw %]
[% block loads %]
[% raw -%]
// The same for all blocks of the cluster that have a bit in `blocks`: to the same place in the shared memory of each.
inline __device__ void load_for(unsigned short blocks, void* to, const CUtensorMap& map, int x, int y,
                                std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(address_of(to)),
      "l"(&map), "r"(x), "r"(y), "r"(address_of(&barrier)), "h"(blocks)
      : "memory");
}

[% endraw %]
[% endblock %]
[% raw -%]
// How WGMMA finds a matrix in shared memory, with TMA's swizzle of 128 bytes: `stride` is the way in bytes to the next
// eight rows as they lie in memory, `leading` to the next 128 bytes of what is longer than one row (PTX ISA, "Matrix
// Descriptor Format").
inline __device__ std::uint64_t descriptor(const void* matrix, int leading, int stride) {
  return (address_of(matrix) & 0x3ffffu) >> 4 | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | std::uint64_t{1} << 62;
}

// clang-format off
#define NAMES_8                                                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16                                                                                                       \
  NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_24                                                                                                       \
  NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_32                                                                                                       \
  NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40                                                                                                       \
  NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_48                                                                                                       \
  NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_56                                                                                                       \
  NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_64                                                                                                       \
  NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_72                                                                                                       \
  NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define NAMES_80                                                                                                       \
  NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define NAMES_88                                                                                                       \
  NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define NAMES_96                                                                                                       \
  NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_104                                                                                                      \
  NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define NAMES_112                                                                                                      \
  NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define NAMES_120                                                                                                      \
  NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define NAMES_128                                                                                                      \
  NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define FOUR(kind, i)                                                                                                  \
  kind(sums[i]), kind(sums[(i) + 1]), kind(sums[(i) + 2]), kind(sums[(i) + 3])
#define EIGHT(kind, i)                                                                                                 \
  FOUR(kind, i), FOUR(kind, (i) + 4)
#define SUMS_8(kind)                                                                                                   \
  EIGHT(kind, 0)
#define SUMS_16(kind)                                                                                                  \
  SUMS_8(kind), EIGHT(kind, 8)
#define SUMS_24(kind)                                                                                                  \
  SUMS_16(kind), EIGHT(kind, 16)
#define SUMS_32(kind)                                                                                                  \
  SUMS_24(kind), EIGHT(kind, 24)
#define SUMS_40(kind)                                                                                                  \
  SUMS_32(kind), EIGHT(kind, 32)
#define SUMS_48(kind)                                                                                                  \
  SUMS_40(kind), EIGHT(kind, 40)
#define SUMS_56(kind)                                                                                                  \
  SUMS_48(kind), EIGHT(kind, 48)
#define SUMS_64(kind)                                                                                                  \
  SUMS_56(kind), EIGHT(kind, 56)
#define SUMS_72(kind)                                                                                                  \
  SUMS_64(kind), EIGHT(kind, 64)
#define SUMS_80(kind)                                                                                                  \
  SUMS_72(kind), EIGHT(kind, 72)
#define SUMS_88(kind)                                                                                                  \
  SUMS_80(kind), EIGHT(kind, 80)
#define SUMS_96(kind)                                                                                                  \
  SUMS_88(kind), EIGHT(kind, 88)
#define SUMS_104(kind)                                                                                                 \
  SUMS_96(kind), EIGHT(kind, 96)
#define SUMS_112(kind)                                                                                                 \
  SUMS_104(kind), EIGHT(kind, 104)
#define SUMS_120(kind)                                                                                                 \
  SUMS_112(kind), EIGHT(kind, 112)
#define SUMS_128(kind)                                                                                                 \
  SUMS_120(kind), EIGHT(kind, 120)
#define WGMMA_OF(columns, names, a_name, b_name, more_name, outputs, type, immediates)                                 \
  asm volatile(                                                                                                        \
      "{\n"                                                                                                            \
      ".reg .pred more;\n"                                                                                             \
      "setp.ne.b32 more, " more_name ", 0;\n"                                                                          \
      "wgmma.mma_async.sync.aligned.m64n" columns type " {" names "}, "                                                \
      a_name ", " b_name ", more" immediates ";\n"                                                                     \
      "}\n"                                                                                                            \
      : outputs                                                                                                        \
      : "l"(a), "l"(b), "r"(static_cast<int>(more)))
#define WGMMA(type, kind, immediates)                                                                                  \
  if constexpr (kSums == 128) {                                                                                        \
    WGMMA_OF("256", NAMES_128, "%128", "%129", "%130", SUMS_128(kind), type, immediates);                              \
  } else if constexpr (kSums == 120) {                                                                                 \
    WGMMA_OF("240", NAMES_120, "%120", "%121", "%122", SUMS_120(kind), type, immediates);                              \
  } else if constexpr (kSums == 112) {                                                                                 \
    WGMMA_OF("224", NAMES_112, "%112", "%113", "%114", SUMS_112(kind), type, immediates);                              \
  } else if constexpr (kSums == 104) {                                                                                 \
    WGMMA_OF("208", NAMES_104, "%104", "%105", "%106", SUMS_104(kind), type, immediates);                              \
  } else if constexpr (kSums == 96) {                                                                                  \
    WGMMA_OF("192", NAMES_96, "%96", "%97", "%98", SUMS_96(kind), type, immediates);                                   \
  } else if constexpr (kSums == 88) {                                                                                  \
    WGMMA_OF("176", NAMES_88, "%88", "%89", "%90", SUMS_88(kind), type, immediates);                                   \
  } else if constexpr (kSums == 80) {                                                                                  \
    WGMMA_OF("160", NAMES_80, "%80", "%81", "%82", SUMS_80(kind), type, immediates);                                   \
  } else if constexpr (kSums == 72) {                                                                                  \
    WGMMA_OF("144", NAMES_72, "%72", "%73", "%74", SUMS_72(kind), type, immediates);                                   \
  } else if constexpr (kSums == 64) {                                                                                  \
    WGMMA_OF("128", NAMES_64, "%64", "%65", "%66", SUMS_64(kind), type, immediates);                                   \
  } else if constexpr (kSums == 56) {                                                                                  \
    WGMMA_OF("112", NAMES_56, "%56", "%57", "%58", SUMS_56(kind), type, immediates);                                   \
  } else if constexpr (kSums == 48) {                                                                                  \
    WGMMA_OF("96", NAMES_48, "%48", "%49", "%50", SUMS_48(kind), type, immediates);                                    \
  } else if constexpr (kSums == 40) {                                                                                  \
    WGMMA_OF("80", NAMES_40, "%40", "%41", "%42", SUMS_40(kind), type, immediates);                                    \
  } else if constexpr (kSums == 32) {                                                                                  \
    WGMMA_OF("64", NAMES_32, "%32", "%33", "%34", SUMS_32(kind), type, immediates);                                    \
  } else if constexpr (kSums == 24) {                                                                                  \
    WGMMA_OF("48", NAMES_24, "%24", "%25", "%26", SUMS_24(kind), type, immediates);                                    \
  } else if constexpr (kSums == 16) {                                                                                  \
    WGMMA_OF("32", NAMES_16, "%16", "%17", "%18", SUMS_16(kind), type, immediates);                                    \
  } else {                                                                                                             \
    WGMMA_OF("16", NAMES_8, "%8", "%9", "%10", SUMS_8(kind), type, immediates);                                        \
  }
// clang-format on
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
