[% if cuda %]
#include "hopper.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hopper_kernel.h"

namespace [[ module ]]_impl {
namespace {
[% include "projects/parts/find_encode.cpp" %]
[% raw %]

std::int64_t parts(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

// What TMA needs to know of a matrix that it moves in boxes of a step by `height` rows.
bool encode(CUtensorMap& map, CUtensorMapDataType type, const void* matrix, std::int64_t rows, std::int64_t columns,
            std::int64_t row_bytes, int width, int height, CUtensorMapSwizzle swizzle) {
  static const Encode function = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(width), static_cast<cuuint32_t>(height)};
  const cuuint32_t steps[] = {1, 1};
  return function != nullptr &&
         function(&map, type, 2, const_cast<void*>(matrix), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// A cluster has at most so many blocks.
constexpr int kMostBlocks = 6;

// How a product is made: rows of a tile, blocks that share rows of x, and parts of the depth.
struct Plan {
  int rows;
  int sharing;
  int splits;
};

// The multiprocessors of the current GPU, 0 if it is no Hopper.
int hopper_processors() {
  int device = 0;
  int major = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return major == 9 ? processors : 0;
}

// How a kernel is launched in clusters of so many blocks.
struct Launch {
  cudaLaunchAttribute cluster = {};
  cudaLaunchConfig_t config = {};

  Launch(std::int64_t clusters, int blocks, int memory, cudaStream_t stream) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    config.gridDim = dim3(static_cast<unsigned>(clusters * blocks));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = memory;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  Launch(const Launch&) = delete;
};

// How many clusters of so many blocks run at the same time, at least one of one or two blocks. Multiprocessors are in
// groups, and a cluster lies in one of these, so clusters of more than two blocks leave some of them without work. All
// Hopper GPUs count as the first one.
std::int64_t clusters_at_once(int blocks) {
  struct Counts {
    int of[kMostBlocks + 1] = {};

    Counts() {
      constexpr int kRows = 256;
      const auto function = multiply_on_hopper<__half, kRows>;
      constexpr int kMemory = sizeof(Memory<kRows>);
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory);
      for (int count = 1; count <= kMostBlocks; ++count) {
        const Launch launch(1, count, kMemory, nullptr);
        cudaOccupancyMaxActiveClusters(&of[count], function, &launch.config);
      }
      cudaGetLastError();  // what cannot be counted counts as 0, and is no error of the launch
    }
  };
  static const Counts counts;
  return blocks <= 2 ? std::max(counts.of[blocks], 1) : counts.of[blocks];
}

// The plan that takes the least time, as counted here in nanoseconds, which are those of an H200: so many for a step of
// a tile's depth, for a tile, and for each of its rows where sums come from several blocks. Tiles come in rounds.
Plan plan_for(const Sizes& sizes) {
  struct Cost {
    int rows;
    std::int64_t step;
    std::int64_t tile;
  };
  constexpr Cost kCosts[] = {{128, 426, 5000}, {192, 544, 5400}, {256, 672, 6000}};
  constexpr std::int64_t kJoinedRow = 19;
  const std::int64_t steps = parts(sizes.depth, kStep);
  const std::int64_t wide = parts(sizes.columns, kColumns);
  Plan best = {};
  std::int64_t least = 0;
  for (const Cost& cost : kCosts) {
    for (int splits = 1; splits <= std::min<std::int64_t>(kMostBlocks, steps); ++splits) {
      const int sharing = splits == 1 && wide > 1 ? 2 : 1;
      const std::int64_t at_once = clusters_at_once(sharing * splits);
      if (at_once == 0) {
        continue;
      }
      const std::int64_t clusters = parts(sizes.rows, cost.rows) * parts(wide, sharing);
      const std::int64_t tile = cost.tile + (splits > 1 ? kJoinedRow * cost.rows : 0);
      const std::int64_t time = parts(clusters, at_once) * (parts(steps, splits) * cost.step + tile);
      if (least == 0 || time < least) {
        least = time;
        best = {cost.rows, sharing, splits};
      }
    }
  }
  return best;
}

template <typename T, int kRows>
int launch(const Plan& plan, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
           cudaStream_t stream) {
  constexpr bool kHalf = std::is_same_v<T, __half>;
  CUtensorMap rows;
  CUtensorMap weights;
  if (!encode(rows, kHalf ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x, sizes.rows,
              sizes.depth, sizes.depth * 2, kStep, kRows / 2, CU_TENSOR_MAP_SWIZZLE_128B) ||
      !encode(weights, CU_TENSOR_MAP_DATA_TYPE_UINT8, weight, sizes.columns, sizes.depth / 2, sizes.depth / 2,
              kStepBytes, kColumns, CU_TENSOR_MAP_SWIZZLE_32B)) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_on_hopper<T, kRows>;
  constexpr int kMemory = sizeof(Memory<kRows>);
  static_assert(kMemory <= kShared, "a block cannot have so much");
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const Work work = {sizes.columns,
                     static_cast<int>(sizes.rows),
                     static_cast<int>(parts(sizes.depth, kStep)),
                     static_cast<int>(sizes.depth / sizes.group),
                     static_cast<int>(sizes.group / (kStep / 2)),
                     plan.sharing,
                     plan.splits};
  const std::int64_t clusters = parts(sizes.rows, kRows) * parts(sizes.columns, plan.sharing * kColumns);
  const Launch prepared(clusters, plan.sharing * plan.splits, kMemory, stream);
  return cudaLaunchKernelEx(&prepared.config, function, rows, weights, static_cast<const T*>(scales),
                            static_cast<T*>(out), work);
}

template <typename T>
int run_as(const Plan& plan, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
           cudaStream_t stream) {
  const auto function = plan.rows == 256 ? launch<T, 256> : plan.rows == 192 ? launch<T, 192> : launch<T, 128>;
  return function(plan, out, x, weight, scales, sizes, stream);
}

}  // namespace

bool is_for_hopper(const Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return sizes.rows > kFewRows && std::max(sizes.rows, sizes.depth) <= kMost && hopper_processors() > 0;
}

int run_on_hopper(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
                  void* stream) {
  const Plan plan = plan_for(sizes);
  const auto on = static_cast<cudaStream_t>(stream);
  return type == Type::float16 ? run_as<__half>(plan, out, x, weight, scales, sizes, on)
                               : run_as<__nv_bfloat16>(plan, out, x, weight, scales, sizes, on);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
