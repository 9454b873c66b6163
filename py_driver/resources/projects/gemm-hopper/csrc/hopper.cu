#include "hopper.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace [[ module ]]_impl {
namespace {
[% raw %]

// A block has one warpgroup that loads and two that multiply. Together they make kRows x kColumns of the output at a
// time, in steps of kBytes of the depth: the widest row that TMA swizzles. Up to kStages steps are loaded ahead.
constexpr int kConsumers = 2;
constexpr int kWarpgroup = 128;
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kRows = 64 * kConsumers;
constexpr int kColumns = 256;
constexpr int kBytes = 128;
constexpr int kStages = 4;
constexpr int kSums = 64 * kColumns / kWarpgroup;  // of a thread
constexpr int kLeftBytes = kRows * kBytes;
constexpr int kRightBytes = kColumns * kBytes;
constexpr int kStageBytes = kLeftBytes + kRightBytes;

// Tiles that run at the same time share rows of a and columns of b in the L2 cache: kGroup tiles down, then across.
constexpr int kGroup = 16;

struct Memory {
  alignas(1024) unsigned char stages[kStages][kStageBytes];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

template <typename T>
struct Traits;

template <>
struct Traits<__half> {
  using Sum = float;
  using Out = __half;
  using Pair = __half2;
  static constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
};

template <>
struct Traits<__nv_bfloat16> {
  using Sum = float;
  using Out = __nv_bfloat16;
  using Pair = __nv_bfloat162;
  static constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
};

template <>
struct Traits<signed char> {
  using Sum = int;
  using Out = int;
  using Pair = int2;
  static constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_UINT8;
};

__device__ __half2 pair_of(__half, float x, float y) { return __floats2half2_rn(x, y); }
__device__ __nv_bfloat162 pair_of(__nv_bfloat16, float x, float y) { return __floats2bfloat162_rn(x, y); }
__device__ int2 pair_of(int, int x, int y) { return make_int2(x, y); }

__device__ unsigned address_of(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

// Barriers in shared memory: a phase of one ends when all threads arrived and all bytes that they expect are there.
__device__ void init(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(&barrier)), "r"(arrivals));
}

__device__ void arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(&barrier)) : "memory");
}

__device__ void arrive_and_expect(std::uint64_t& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(&barrier)), "r"(bytes)
               : "memory");
}

__device__ void wait(std::uint64_t& barrier, unsigned phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(address_of(&barrier)),
      "r"(phase)
      : "memory");
}

// TMA: one thread asks for a box of a matrix; what lies outside of the matrix is 0.
__device__ void load(void* to, const CUtensorMap& map, int x, int y, std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          address_of(to)),
      "l"(&map), "r"(x), "r"(y), "r"(address_of(&barrier))
      : "memory");
}

// How WGMMA finds a matrix in shared memory, with TMA's swizzle of 128 bytes: `stride` is the way in bytes to the next
// eight rows as they lie in memory, `leading` to the next 128 bytes of what is longer than one row (PTX ISA, "Matrix
// Descriptor Format").
__device__ std::uint64_t descriptor(const void* matrix, int leading, int stride) {
  return (address_of(matrix) & 0x3ffffu) >> 4 | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | std::uint64_t{1} << 62;
}

// clang-format off
#define FOUR(kind, i)                                                                                                  \
  kind(sums[i]), kind(sums[(i) + 1]), kind(sums[(i) + 2]), kind(sums[(i) + 3])
#define SIXTEEN(kind, i)                                                                                               \
  FOUR(kind, i), FOUR(kind, (i) + 4), FOUR(kind, (i) + 8), FOUR(kind, (i) + 12)
#define WGMMA(type, kind, immediates)                                                                                  \
  asm volatile(                                                                                                        \
      "{\n"                                                                                                            \
      ".reg .pred more;\n"                                                                                             \
      "setp.ne.b32 more, %130, 0;\n"                                                                                   \
      "wgmma.mma_async.sync.aligned.m64n256" type " {"                                                                 \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                         \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                               \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                               \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                               \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                               \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                               \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "                   \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"                 \
      "}, %128, %129, more" immediates ";\n"                                                                           \
      "}\n"                                                                                                            \
      : SIXTEEN(kind, 0), SIXTEEN(kind, 16), SIXTEEN(kind, 32), SIXTEEN(kind, 48), SIXTEEN(kind, 64),                  \
        SIXTEEN(kind, 80), SIXTEEN(kind, 96), SIXTEEN(kind, 112)                                                       \
      : "l"(a), "l"(b), "r"(static_cast<int>(more)))
// clang-format on

// sums = a @ b + (more ? sums : 0), for 64 rows, 256 columns and 32 bytes of the depth. It runs on after the call.
template <typename T, bool kByColumns>
__device__ void multiply(typename Traits<T>::Sum (&sums)[kSums], std::uint64_t a, std::uint64_t b, bool more) {
  if constexpr (std::is_same_v<T, signed char>) {
    WGMMA("k32.s32.s8.s8", "+r", "");
  } else if constexpr (std::is_same_v<T, __half> && kByColumns) {
    WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 0");
  } else if constexpr (std::is_same_v<T, __half>) {
    WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 1");
  } else if constexpr (kByColumns) {
    WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 0");
  } else {
    WGMMA("k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 1");
  }
}

#undef WGMMA
#undef SIXTEEN
#undef FOUR

// Which stage is next, and how often all were: the producer and the consumers count alike.
struct Turn {
  int stage = 0;
  unsigned phase = 0;

  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

struct Tiles {
  int down;
  int across;

  __device__ int count() const { return down * across; }

  __device__ void place(int tile, int& row, int& column) const {
    const int group = tile / (kGroup * across);
    const int within = tile % (kGroup * across);
    const int high = min(kGroup, down - group * kGroup);
    row = (group * kGroup + within % high) * kRows;
    column = within / high * kColumns;
  }
};

template <typename T, bool kByColumns>
__device__ void produce(Memory& memory, const CUtensorMap& a, const CUtensorMap& b, const Tiles& tiles, int steps) {
  constexpr int kDepth = kBytes / sizeof(T);
  Turn turn;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    int row;
    int column;
    tiles.place(tile, row, column);
    for (int step = 0; step < steps; ++step, turn.next()) {
      unsigned char* const left = memory.stages[turn.stage];
      unsigned char* const right = left + kLeftBytes;
      std::uint64_t& full = memory.full[turn.stage];
      // The first round finds all stages empty: the phase before the first one counts as ended.
      wait(memory.empty[turn.stage], turn.phase ^ 1);
      arrive_and_expect(full, kStageBytes);
      load(left, a, step * kDepth, row, full);
      if constexpr (kByColumns) {
        load(right, b, step * kDepth, column, full);
      } else {
        for (int part = 0; part < kColumns / kDepth; ++part) {
          load(right + part * kDepth * kBytes, b, column + part * kDepth, step * kDepth, full);
        }
      }
    }
  }
}

template <typename T, bool kByColumns>
__device__ void consume(Memory& memory, typename Traits<T>::Out* out, const Tiles& tiles, int steps, int rows,
                        int columns) {
  using Pair = typename Traits<T>::Pair;
  constexpr int kWays = kBytes / 32;
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int warp = threadIdx.x % kWarpgroup / 32;
  const int lane = threadIdx.x % 32;
  Turn turn;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    // The first step overwrites them; but without a value nvcc 12.4 has each product wait for the one before.
    typename Traits<T>::Sum sums[kSums] = {};
    int before = 0;
    for (int step = 0; step < steps; ++step) {
      const unsigned char* const left = memory.stages[turn.stage] + consumer * 64 * kBytes;
      const unsigned char* const right = memory.stages[turn.stage] + kLeftBytes;
      wait(memory.full[turn.stage], turn.phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int way = 0; way < kWays; ++way) {
        const std::uint64_t a = descriptor(left + way * 32, 0, 8 * kBytes);
        const std::uint64_t b = kByColumns ? descriptor(right + way * 32, 0, 8 * kBytes)
                                           : descriptor(right + way * 16 * kBytes, 64 * kBytes, 8 * kBytes);
        multiply<T, kByColumns>(sums, a, b, step + way > 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      // These run on; those of the step before have ended, and its stage can be loaded again.
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (step > 0 && lane == 0) {
        arrive(memory.empty[before]);
      }
      before = turn.stage;
      turn.next();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (lane == 0) {
      arrive(memory.empty[before]);
    }
    // Eight columns after the other, a quad of threads has two rows of them, and each thread a pair in both.
    int row;
    int column;
    tiles.place(tile, row, column);
    row += consumer * 64 + warp * 16 + lane / 4;
    column += lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kSums; i += 2) {
      const int at_row = row + i / 2 % 2 * 8;
      const int at_column = column + i / 4 * 8;
      if (at_row < rows && at_column < columns) {
        *reinterpret_cast<Pair*>(out + at_row * static_cast<std::int64_t>(columns) + at_column) =
            pair_of(typename Traits<T>::Out(), sums[i], sums[i + 1]);
      }
    }
  }
}

template <typename T, bool kByColumns>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_on_hopper(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       typename Traits<T>::Out* out, Tiles tiles, int steps, int rows, int columns) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], kConsumers * kWarpgroup / 32);
    }
    // TMA is to see the barriers too.
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  // The threads that load need few registers; the others need theirs for the sums.
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      produce<T, kByColumns>(memory, a, b, tiles, steps);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<T, kByColumns>(memory, out, tiles, steps, rows, columns);
  }
}

using Encode = decltype(&cuTensorMapEncodeTiled);

// A function of the driver: the runtime knows where, so that nothing links against libcuda.
Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
}

// What TMA needs to know of a matrix that is loaded in boxes of `width` elements by `height` rows.
template <typename T>
bool encode(CUtensorMap& map, const void* matrix, std::int64_t columns, std::int64_t rows, int width, int height) {
  static const Encode function = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns) * sizeof(T)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(width), static_cast<cuuint32_t>(height)};
  const cuuint32_t steps[] = {1, 1};
  return function != nullptr &&
         function(&map, Traits<T>::kMap, 2, const_cast<void*>(matrix), sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool is_aligned(const void* matrix, std::int64_t columns, std::size_t size) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && columns * size % 16 == 0;
}

template <typename T, bool kByColumns>
int run_as(void* out, const void* a, const void* b, const Sizes& sizes, int processors, cudaStream_t stream) {
  constexpr int kDepth = kBytes / sizeof(T);
  CUtensorMap left;
  CUtensorMap right;
  if (!encode<T>(left, a, sizes.depth, sizes.rows, kDepth, kRows) ||
      !(kByColumns ? encode<T>(right, b, sizes.depth, sizes.columns, kDepth, kColumns)
                   : encode<T>(right, b, sizes.columns, sizes.depth, kDepth, kDepth))) {
    return kNotForHopper;
  }
  const auto function = multiply_on_hopper<T, kByColumns>;
  if (const cudaError_t error =
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory))) {
    return error;
  }
  const auto parts = [](std::int64_t all, int each) { return static_cast<int>((all + each - 1) / each); };
  const Tiles tiles = {parts(sizes.rows, kRows), parts(sizes.columns, kColumns)};
  const int blocks = static_cast<int>(
      std::min<std::int64_t>(processors, static_cast<std::int64_t>(tiles.down) * tiles.across));
  function<<<blocks, kThreads, sizeof(Memory), stream>>>(
      left, right, static_cast<typename Traits<T>::Out*>(out), tiles, parts(sizes.depth, kDepth),
      static_cast<int>(sizes.rows), static_cast<int>(sizes.columns));
  return cudaGetLastError();
}

}  // namespace

int run_on_hopper(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* stream) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::size_t size = type == Type::int8 ? 1 : 2;
  if (type == Type::narrow_float16 || (type == Type::int8 && !sizes.by_columns) || sizes.depth == 0 ||
      std::max({sizes.rows, sizes.columns, sizes.depth}) > kMost || sizes.columns % 2 != 0 ||
      reinterpret_cast<std::uintptr_t>(out) % 8 != 0 || !is_aligned(a, sizes.depth, size) ||
      !is_aligned(b, sizes.by_columns ? sizes.depth : sizes.columns, size)) {
    return kNotForHopper;
  }
  int device = 0;
  int major = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (major != 9) {
    return kNotForHopper;
  }
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float16:
      return sizes.by_columns ? run_as<__half, true>(out, a, b, sizes, processors, on)
                              : run_as<__half, false>(out, a, b, sizes, processors, on);
    case Type::bfloat16:
      return sizes.by_columns ? run_as<__nv_bfloat16, true>(out, a, b, sizes, processors, on)
                              : run_as<__nv_bfloat16, false>(out, a, b, sizes, processors, on);
    default:
      return run_as<signed char, true>(out, a, b, sizes, processors, on);
  }
}
[% endraw %]
}  // namespace [[ module ]]_impl
