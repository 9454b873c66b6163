#include "hopper.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hopper_kernel.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// Tiles of 128 columns and more are in pairs below each other, those of 64 in pairs beside each other.
using Wide = Shape<256, 2, 1>;
using Middle = Shape<128, 2, 1>;
using Narrow = Shape<64, 1, 2>;

struct Matrix {
  const void* first;
  std::int64_t columns;
  std::int64_t rows;
  std::int64_t pitch;  // elements from row to row
};

enum class Columns { wide, middle, narrow };

// How the product is made: the shape of tiles, and in how many parts the depth is split.
struct Plan {
  Columns columns;
  int splits;
};

// What a plan needs beside the output: copies whose rows are as TMA can read them, and the sums of each split.
struct Scratch {
  std::int64_t left_pitch;   // in bytes, 0 without a copy
  std::int64_t right_pitch;  // in bytes, 0 without a copy
  std::int64_t left;
  std::int64_t right;
  std::int64_t sums_pitch;  // in elements
  std::int64_t split_rows;
  std::int64_t sums;
};

std::int64_t parts(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

std::int64_t rounded(std::int64_t all, std::int64_t each) { return parts(all, each) * each; }

// Each thread moves 16 bytes to where they are aligned; a warp has a row, a block some of them.
constexpr int kCopyRows = 8;
constexpr int kCopySteps = 4;
constexpr int kVector = sizeof(uint4);

__global__ void __launch_bounds__(32 * kCopyRows)
    copy_rows(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, std::int64_t rows,
              std::int64_t bytes, std::int64_t pitch) {
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(kCopyRows) + threadIdx.y;
  if (row >= rows) {
    return;
  }
  const unsigned char* const source = from + row * bytes;
  const unsigned char* const end = from + rows * bytes;
  const unsigned shift = reinterpret_cast<std::uintptr_t>(source) % 4;
  constexpr std::int64_t kStep = 32 * kVector;
  for (std::int64_t first = blockIdx.y * kStep * kCopySteps + threadIdx.x * kVector; first < bytes;
       first += gridDim.y * kStep * kCopySteps) {
#pragma unroll
    for (int step = 0; step < kCopySteps; ++step) {
      const std::int64_t at = first + step * kStep;
      const unsigned char* const aligned = source + at - shift;
      uint4 vector = {0, 0, 0, 0};
      if (at + kVector <= bytes && aligned >= from && aligned + kVector + 4 <= end) {
        const auto* const words = reinterpret_cast<const unsigned*>(aligned);
        unsigned word[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) {
          word[i] = words[i];
        }
        vector = {__funnelshift_r(word[0], word[1], 8 * shift), __funnelshift_r(word[1], word[2], 8 * shift),
                  __funnelshift_r(word[2], word[3], 8 * shift), __funnelshift_r(word[3], word[4], 8 * shift)};
      } else {
        for (int i = 0; i < kVector && at + i < bytes; ++i) {
          reinterpret_cast<unsigned char*>(&vector)[i] = source[at + i];
        }
      }
      if (at < bytes) {
        *reinterpret_cast<uint4*>(to + row * pitch + at) = vector;
      }
    }
  }
}

// The sums of all splits, always in the same order.
constexpr int kAddThreads = 256;

template <typename Out, typename Sum>
__global__ void __launch_bounds__(kAddThreads)
    add_splits(Out* __restrict__ out, const Sum* __restrict__ sums, int splits, std::int64_t rows, std::int64_t columns,
               std::int64_t pitch, std::int64_t split) {
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kAddThreads) + threadIdx.x;
  for (std::int64_t row = blockIdx.y; row < rows && column < columns; row += gridDim.y) {
    const Sum* const from = sums + row * pitch + column;
    Sum sum = 0;
    for (int i = 0; i < splits; ++i) {
      sum += from[i * split];
    }
    out[row * columns + column] = static_cast<Out>(sum);
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

template <typename T>
constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_UINT8;
template <>
constexpr CUtensorMapDataType kMap<__half> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
constexpr CUtensorMapDataType kMap<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
template <>
constexpr CUtensorMapDataType kMap<float> = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
template <>
constexpr CUtensorMapDataType kMap<int> = CU_TENSOR_MAP_DATA_TYPE_INT32;

// What TMA needs to know of a matrix that it moves in boxes of kBytes by `height` rows.
template <typename T>
bool encode(CUtensorMap& map, const Matrix& matrix, int height) {
  static const Encode function = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.columns), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.pitch) * sizeof(T)};
  const cuuint32_t box[] = {kBytes / sizeof(T), static_cast<cuuint32_t>(height)};
  const cuuint32_t steps[] = {1, 1};
  return function != nullptr &&
         function(&map, kMap<T>, 2, const_cast<void*>(matrix.first), sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool is_aligned(const void* matrix, std::int64_t row_bytes) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && row_bytes % 16 == 0;
}

std::int64_t size_of(Type type) { return type == Type::int8 ? 1 : 2; }

// The plan with the fewest cycles, as counted here: a multiprocessor needs so many for a step of a tile's depth, and
// some for each tile; tiles come in rounds of one for each multiprocessor. Splits cost a second kernel, and memory.
Plan plan_for(Type type, const Sizes& sizes, int processors) {
  struct Cost {
    Columns columns;
    int wide;
    int down;
    int across;
    double step;
    double tile;
  };
  constexpr Cost kCosts[] = {{Columns::wide, Wide::kColumns, Wide::kDown, Wide::kAcross, 1024, 1000},
                             {Columns::middle, Middle::kColumns, Middle::kDown, Middle::kAcross, 575, 700},
                             {Columns::narrow, Narrow::kColumns, Narrow::kDown, Narrow::kAcross, 400, 600}};
  constexpr double kStart = 3000;
  constexpr double kSplit = 6000;
  constexpr double kSumBytes = 1500;  // for each cycle
  const std::int64_t steps = parts(sizes.depth * size_of(type), kBytes);
  Plan best = {Columns::wide, 1};
  double fewest = 0;
  for (const Cost& cost : kCosts) {
    const std::int64_t clusters = parts(sizes.rows, cost.down * kRows) * parts(sizes.columns, cost.across * cost.wide);
    const std::int64_t at_once = std::max(processors / (cost.down * cost.across), 1);
    for (std::int64_t splits = 1; splits <= 16 && splits * 4 <= std::max<std::int64_t>(steps, 4); splits *= 2) {
      double cycles = static_cast<double>(parts(clusters * splits, at_once)) *
                          (static_cast<double>(parts(steps, splits)) * cost.step + cost.tile) + kStart;
      if (splits > 1) {
        cycles += kSplit + static_cast<double>(splits * 2 * sizes.rows * sizes.columns) * sizeof(float) / kSumBytes;
      }
      if (fewest == 0 || cycles < fewest) {
        fewest = cycles;
        best = {cost.columns, static_cast<int>(splits)};
      }
    }
  }
  return best;
}

bool fits(Type type, const Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  // Below that the other kernel is as fast, since it needs no copies.
  constexpr std::int64_t kLeast = std::int64_t{1} << 18;
  return type != Type::narrow_float16 && (type != Type::int8 || sizes.by_columns) && sizes.depth > 0 &&
         std::max({sizes.rows, sizes.columns, sizes.depth}) <= kMost &&
         (sizes.rows * sizes.columns >= kLeast / sizes.depth);
}

Scratch scratch_for(Type type, const void* a, const void* b, const Sizes& sizes, const Plan& plan) {
  const std::int64_t size = size_of(type);
  const std::int64_t left = sizes.depth * size;
  const std::int64_t right = (sizes.by_columns ? sizes.depth : sizes.columns) * size;
  Scratch scratch = {};
  if (!is_aligned(a, left)) {
    scratch.left_pitch = rounded(left, kBytes);
    scratch.left = scratch.left_pitch * sizes.rows;
  }
  if (!is_aligned(b, right)) {
    scratch.right_pitch = rounded(right, kBytes);
    scratch.right = scratch.right_pitch * (sizes.by_columns ? sizes.columns : sizes.depth);
  }
  if (plan.splits > 1) {
    scratch.sums_pitch = rounded(sizes.columns, 32);
    scratch.split_rows = rounded(sizes.rows, Wide::kDown * kRows);
    scratch.sums = plan.splits * scratch.split_rows * scratch.sums_pitch * 4;
  }
  return scratch;
}

struct Run {
  Sizes sizes;
  Scratch scratch;
  void* out;
  unsigned char* memory;
  int splits;
  int processors;
  cudaStream_t stream;
};

// The matrix, or a copy of it whose rows have another pitch.
Matrix placed(const void* from, std::int64_t columns, std::int64_t rows, std::int64_t size, void* copy,
              std::int64_t pitch, cudaStream_t stream) {
  if (pitch == 0) {
    return {from, columns, rows, columns};
  }
  const std::int64_t bytes = columns * size;
  const std::int64_t across = std::min<std::int64_t>(parts(bytes, 32 * kVector * kCopySteps), 65535);
  const dim3 blocks(static_cast<unsigned>(parts(rows, kCopyRows)), static_cast<unsigned>(across));
  copy_rows<<<blocks, dim3(32, kCopyRows), 0, stream>>>(
      static_cast<unsigned char*>(copy), static_cast<const unsigned char*>(from), rows, bytes, pitch);
  return {copy, columns, rows, pitch / size};
}

template <typename T, bool kByColumns, typename Out, class Shape>
int launch(const Run& run, const Matrix& a, const Matrix& b, const Output& output, std::int64_t pitch) {
  CUtensorMap left;
  CUtensorMap right;
  CUtensorMap map = {};
  const std::int64_t rows = run.splits > 1 ? run.splits * static_cast<std::int64_t>(output.split_rows) : output.rows;
  if (!encode<T>(left, a, kRows / Shape::kAcross) ||
      !encode<T>(right, b, kByColumns ? Shape::kColumns / Shape::kDown : kBytes / static_cast<int>(sizeof(T))) ||
      (output.by_tma && !encode<Out>(map, {output.first, output.columns, rows, pitch}, kPartRows))) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_on_hopper<T, kByColumns, Out, Shape>;
  constexpr int kMemory = sizeof(Memory<Shape>);
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const Jobs jobs = {static_cast<int>(parts(run.sizes.rows, Shape::kDown * kRows)),
                     static_cast<int>(parts(run.sizes.columns, Shape::kAcross * Shape::kColumns)),
                     static_cast<int>(parts(run.sizes.depth * sizeof(T), kBytes)), run.splits};
  const std::int64_t all = static_cast<std::int64_t>(jobs.down) * jobs.across * jobs.splits;
  const auto clusters = std::min<std::int64_t>(std::max(run.processors / Shape::kBlocks, 1), all);
  function<<<static_cast<unsigned>(clusters * Shape::kBlocks), kThreads, kMemory, run.stream>>>(left, right, map,
                                                                                                output, jobs);
  return cudaGetLastError();
}

template <typename T, typename Out, bool kByColumns>
int run_as(const Run& run, const void* a, const void* b, Columns columns) {
  using Sum = SumOf<T>;
  const Sizes& sizes = run.sizes;
  const Scratch& scratch = run.scratch;
  const Matrix left = placed(a, sizes.depth, sizes.rows, sizeof(T), run.memory, scratch.left_pitch, run.stream);
  const Matrix right = placed(b, kByColumns ? sizes.depth : sizes.columns, kByColumns ? sizes.columns : sizes.depth,
                              sizeof(T), run.memory + scratch.left, scratch.right_pitch, run.stream);
  const auto with = [&](auto shape) -> int {
    using Picked = decltype(shape);
    Output output = {run.out, static_cast<int>(sizes.rows), static_cast<int>(sizes.columns), 0,
                     is_aligned(run.out, sizes.columns * sizeof(Out))};
    if (run.splits == 1) {
      return launch<T, kByColumns, Out, Picked>(run, left, right, output, sizes.columns);
    }
    output.first = run.memory + scratch.left + scratch.right;
    output.split_rows = static_cast<int>(scratch.split_rows);
    output.by_tma = true;
    if (const int error = launch<T, kByColumns, Sum, Picked>(run, left, right, output, scratch.sums_pitch)) {
      return error;
    }
    const dim3 blocks(static_cast<unsigned>(parts(sizes.columns, kAddThreads)),
                      static_cast<unsigned>(std::min<std::int64_t>(sizes.rows, 65535)));
    add_splits<<<blocks, kAddThreads, 0, run.stream>>>(static_cast<Out*>(run.out),
                                                       static_cast<const Sum*>(output.first), run.splits, sizes.rows,
                                                       sizes.columns, scratch.sums_pitch,
                                                       scratch.split_rows * scratch.sums_pitch);
    return cudaGetLastError();
  };
  switch (columns) {
    case Columns::wide:
      return with(Wide());
    case Columns::middle:
      return with(Middle());
    default:
      return with(Narrow());
  }
}

// 0 if the GPU is no Hopper.
int hopper_processors() {
  int device = 0;
  int major = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return major == 9 ? processors : 0;
}

int run_planned(const Plan& plan, Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch,
                int processors, void* stream) {
  const Run run = {sizes,       scratch_for(type, a, b, sizes, plan), out, static_cast<unsigned char*>(scratch),
                   plan.splits, processors, static_cast<cudaStream_t>(stream)};
  switch (type) {
    case Type::float16:
      return sizes.by_columns ? run_as<__half, __half, true>(run, a, b, plan.columns)
                              : run_as<__half, __half, false>(run, a, b, plan.columns);
    case Type::bfloat16:
      return sizes.by_columns ? run_as<__nv_bfloat16, __nv_bfloat16, true>(run, a, b, plan.columns)
                              : run_as<__nv_bfloat16, __nv_bfloat16, false>(run, a, b, plan.columns);
    default:
      return run_as<signed char, int, true>(run, a, b, plan.columns);
  }
}

}  // namespace

std::int64_t scratch_on_hopper(Type type, const void* a, const void* b, const Sizes& sizes) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(type, sizes)) {
    return 0;
  }
  const Scratch scratch = scratch_for(type, a, b, sizes, plan_for(type, sizes, processors));
  return scratch.left + scratch.right + scratch.sums;
}

int run_on_hopper(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch, void* stream) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(type, sizes) || reinterpret_cast<std::uintptr_t>(out) % 4 != 0) {
    return kNotForHopper;
  }
  return run_planned(plan_for(type, sizes, processors), type, out, a, b, sizes, scratch, processors, stream);
}
[% endraw %]
}  // namespace [[ module ]]_impl
