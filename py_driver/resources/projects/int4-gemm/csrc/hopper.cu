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

// Clusters of more blocks do not fill all multiprocessors.
constexpr int kMostSplits = 2;

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

// The plan with the fewest cycles, as counted here: a multiprocessor needs so many for a step of a tile's depth, and some
// for each tile; tiles come in rounds of one for each multiprocessor.
Plan plan_for(const Sizes& sizes, int processors) {
  struct Cost {
    int rows;
    std::int64_t step;
    std::int64_t tile;
  };
  constexpr Cost kCosts[] = {{128, 600, 3000}, {192, 850, 4000}, {256, 1100, 5000}};
  const std::int64_t steps = parts(sizes.depth, kStep);
  const std::int64_t wide = parts(sizes.columns, kColumns);
  Plan best = {};
  std::int64_t fewest = 0;
  for (const Cost& cost : kCosts) {
    for (std::int64_t splits = 1; splits <= std::min<std::int64_t>(kMostSplits, steps); ++splits) {
      // Two blocks share rows of x where the depth is not split.
      const std::int64_t sharing = splits == 1 && wide > 1 ? 2 : 1;
      const std::int64_t clusters = parts(sizes.rows, cost.rows) * parts(wide, sharing);
      const std::int64_t at_once = std::max<std::int64_t>(processors / (sharing * splits), 1);
      const std::int64_t cycles = parts(clusters, at_once) * (parts(steps, splits) * cost.step + cost.tile);
      if (fewest == 0 || cycles < fewest) {
        fewest = cycles;
        best = {cost.rows, static_cast<int>(sharing), static_cast<int>(splits)};
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
  const int blocks = plan.sharing * plan.splits;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(parts(sizes.rows, kRows) *
                                              parts(sizes.columns, plan.sharing * kColumns) * blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kMemory;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, function, rows, weights, static_cast<const T*>(scales), static_cast<T*>(out),
                            work);
}

template <typename T>
int run_as(const Plan& plan, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
           cudaStream_t stream) {
  const auto function = plan.rows == 256   ? launch<T, 256>
                        : plan.rows == 192 ? launch<T, 192>
                        : plan.rows == 128 ? launch<T, 128>
                                           : launch<T, 64>;
  return function(plan, out, x, weight, scales, sizes, stream);
}

}  // namespace

bool is_for_hopper(const Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return sizes.rows > kFewRows && std::max(sizes.rows, sizes.depth) <= kMost && hopper_processors() > 0;
}

int run_on_hopper(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
                  void* stream) {
  const Plan plan = plan_for(sizes, hopper_processors());
  const auto on = static_cast<cudaStream_t>(stream);
  return type == Type::float16 ? run_as<__half>(plan, out, x, weight, scales, sizes, on)
                               : run_as<__nv_bfloat16>(plan, out, x, weight, scales, sizes, on);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
