[% if cuda %]
// The kernel for products of few rows, which reads b as fast as memory gives it: hopper.cu launches it.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "[[ module ]].h"
#include "hopper_memory.h"
#include "hopper_plan.h"
#include "hopper_ptx.h"
#include "hopper_tiles.h"

namespace [[ module ]]_impl {
[% raw %]

// WGMMA has 64 rows at least. So few rows of the output are the columns of what a block computes, the transposed
// product: 128 columns of b are its rows, two warpgroups multiply 64 each, and a warp loads. Two blocks run at the same
// time on a multiprocessor. A cluster of blocks shares the depth, and adds up its sums in the order of the blocks.
constexpr int kFewWarps = 8;
constexpr int kFewThreads = 32 * (kFewWarps + 1);
constexpr int kFewShared = 115712;  // bytes that each of two blocks can have
constexpr int kFewOthers = 256;     // of them for barriers, and to be aligned

// From row to row of the sums in shared memory, so that no two threads of a warp store to the same bank.
constexpr int kFewPitch = kFewColumns + 4;

// `More` is what a product needs beside the matrices.
template <int kHigh, class More>
struct FewMemory {
  static constexpr int kStageBytes = (kFewColumns + kHigh) * kBytes;
  static constexpr int kStages = (kFewShared - kFewOthers - static_cast<int>(sizeof(More))) / kStageBytes;
  static_assert(kHigh * kFewPitch * 4 <= kStages * kStageBytes, "the sums lie where the stages were");

  alignas(1024) unsigned char stages[kStages][kStageBytes];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
  More more;
};

// Until all threads that multiply are here.
inline __device__ void synchronize_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kFewWarps) : "memory");
}

template <class Product, class Memory>
__device__ void produce_few(Memory& memory, const CUtensorMap& a, const CUtensorMap& b, int column, int first,
                            int last) {
  Turn<Memory::kStages> turn;
  for (int step = first; step < last; ++step, turn.next()) {
    unsigned char* const of_b = memory.stages[turn.stage];
    std::uint64_t& full = memory.full[turn.stage];
    wait(memory.empty[turn.stage], turn.phase ^ 1);
    arrive_and_expect(full, Memory::kStageBytes);
    if constexpr (Product::kByColumns) {
      load(of_b, b, step * Product::kDepth, column, full);
    } else {
      for (int part = 0; part < kFewColumns / Product::kDepth; ++part) {
        load(of_b + part * Product::kDepth * kBytes, b, column + part * Product::kDepth, step * Product::kDepth, full);
      }
    }
    load(of_b + kFewColumns * kBytes, a, step * Product::kDepth, 0, full);
  }
}

[% endraw %]
[% include "projects/parts/store_four.cpp" %]
[% raw %]
// Whether all rows of an output can be stored four numbers at a time.
template <typename Out>
inline __device__ bool in_fours(const Out* out, std::int64_t columns) {
  return columns % kFour == 0 && reinterpret_cast<std::uintptr_t>(out) % (kFour * sizeof(Out)) == 0;
}

// The sums of all blocks of the cluster: each block adds up and stores a part of the tile.
template <class Product, typename Out, typename Sum>
__device__ void join_few(Out* out, const Sum* sums, int rows, int columns, int column, int rank, int splits,
                         const Product& product) {
  constexpr int kAtOnce = 32 * kFewWarps * kFour;
  const bool aligned = in_fours(out, columns);
  for (int i = rank * kAtOnce + static_cast<int>(threadIdx.x) * kFour; i < rows * kFewColumns; i += splits * kAtOnce) {
    const int row = i / kFewColumns;
    const int at = i % kFewColumns;
    Sum parts[kFewSplits][kFour] = {};
#pragma unroll
    for (int split = 0; split < kFewSplits; ++split) {
      if (split < splits) {
        load_from(parts[split], sums + row * kFewPitch + at, split);
      }
    }
#pragma unroll
    for (int j = 0; j < kFour; ++j) {
#pragma unroll
      for (int split = 1; split < kFewSplits; ++split) {
        parts[0][j] += parts[split][j];
      }
      if (column + at + j < columns) {
        parts[0][j] = product.finish(parts[0][j], row, column + at + j);
      }
    }
    store_four(out + row * static_cast<std::int64_t>(columns) + column + at, parts[0], columns - column - at, aligned);
  }
}

// `Product` multiplies a step of the depth: see hopper_kernel.h. kHigh is at least the number of rows.
template <class Product, typename Out, int kHigh>
__global__ void __launch_bounds__(kFewThreads, 2)
    multiply_few(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, Out* __restrict__ out,
                 int rows, int columns, int steps, Product product) {
  using Sum = typename Product::Sum;
  using Memory = FewMemory<kHigh, typename Product::template More<kHigh>>;
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<Memory*>(bytes);
  auto* const results = reinterpret_cast<Sum*>(bytes);
  const int splits = blocks_of_cluster();
  const int rank = rank_in_cluster();
  const int column = static_cast<int>(blockIdx.x) / splits * kFewColumns;
  const int first = rank * steps / splits;
  const int last = (rank + 1) * steps / splits;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (warp == kFewWarps && lane == 0) {
    prefetch(a);
    prefetch(b);
    for (int stage = 0; stage < Memory::kStages; ++stage) {
      init(memory.full[stage], 1);
      init(memory.empty[stage], kFewWarps);
    }
    publish();
  }
  __syncthreads();
  if (warp == kFewWarps) {
    if (lane == 0) {
      produce_few<Product>(memory, a, b, column, first, last);
    }
    __syncwarp();
  } else {
    Turn<Memory::kStages> turn;
    Sum sums[kHigh / 2] = {};
#pragma unroll 1
    for (int step = first; step < last; ++step, turn.next()) {
      const unsigned char* const of_b = memory.stages[turn.stage] + warp / 4 * 64 * kBytes;
      const unsigned char* const of_a = memory.stages[turn.stage] + kFewColumns * kBytes;
      product.prepare(memory.more, step, first, last, column, rows);
      wait(memory.full[turn.stage], turn.phase);
      product.multiply(sums, of_b, of_a, memory.more, step, first);
      if (lane == 0) {
        arrive(memory.empty[turn.stage], rank);
      }
    }
    // Both warpgroups have read all that was loaded, and the sums can lie there.
    synchronize_consumers();
#pragma unroll
    for (int i = 0; i < kHigh / 2; ++i) {
      results[(lane % 4 * 2 + i % 2 + i / 4 * 8) * kFewPitch + warp * 16 + lane / 4 + i / 2 % 2 * 8] = sums[i];
    }
  }
  share_in_cluster();
  if (warp < kFewWarps) {
    join_few(out, results, rows, columns, column, rank, splits, product);
  }
  // The others have read what is in the memory of this block.
  share_in_cluster();
}

template <typename T, class Product, typename Out, int kHigh>
int launch_few(const Product& product, const Matrix& a, const Matrix& b, const Sizes& sizes, void* out, int splits,
               cudaStream_t stream) {
  using Memory = FewMemory<kHigh, typename Product::template More<kHigh>>;
  static_assert(sizeof(Memory) <= kFewShared, "two blocks cannot have so much");
  CUtensorMap left;
  CUtensorMap right;
  if (!encode<T>(left, a, kHigh) || !encode<T>(right, b, Product::kByColumns ? kFewColumns : Product::kDepth)) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_few<Product, Out, kHigh>;
  constexpr int kMemory = sizeof(Memory);
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(splits), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(parts(sizes.columns, kFewColumns) * splits));
  config.blockDim = dim3(kFewThreads);
  config.dynamicSmemBytes = kMemory;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, function, left, right, static_cast<Out*>(out), static_cast<int>(sizes.rows),
                            static_cast<int>(sizes.columns),
                            static_cast<int>(parts(sizes.depth * sizeof(T), kBytes)), product);
}

// The same for as many rows as there are, at most kFewRows.
template <typename T, class Product, typename Out>
int run_few(const Product& product, const Matrix& a, const Matrix& b, const Sizes& sizes, void* out, int splits,
            cudaStream_t stream) {
  if (sizes.rows <= 16) {
    return launch_few<T, Product, Out, 16>(product, a, b, sizes, out, splits, stream);
  }
  if (sizes.rows <= 32) {
    return launch_few<T, Product, Out, 32>(product, a, b, sizes, out, splits, stream);
  }
  return launch_few<T, Product, Out, kFewRows>(product, a, b, sizes, out, splits, stream);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
