[% if cuda %]
// The products of all experts in one launch.
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "debug.h"

namespace [[ module ]]_impl {
[% raw %]
namespace {

// A block makes kTile x kTile of the output at a time, in steps of kDepth, some of which are on their way while one is
// multiplied. A warp has kDown x kAcross fragments of 16 x 8.
constexpr int kTile = 128;
constexpr int kDepth = 32;
constexpr int kSteps = 4;
constexpr int kWarpsAcross = 4;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kDown = kTile / 16 / (kWarps / kWarpsAcross);
constexpr int kAcross = kTile / 8 / kWarpsAcross;
constexpr int kBlocks = 2;  // on a multiprocessor
constexpr int kWide = 8;    // elements in 16 bytes
constexpr int kPart = kTile * kDepth;  // elements of one matrix in a step
constexpr int kPitch = kTile + kWide;  // of the result in shared memory, so that its rows begin in different banks
constexpr int kShared = kSteps * 2 * kPart * 2;
constexpr int kBand = 16;  // rows of tiles whose columns are made together, so that the cache has what they share
static_assert(kTile * kPitch * 2 <= kShared);

__device__ unsigned address_of(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

// 16 bytes to shared memory: `count` elements (0 to 8) and zeros. Aligned, there are 8 or none, and they come later.
template <typename T>
__device__ void copy(T* to, const T* from, std::int64_t count, bool aligned) {
  if (aligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address_of(to)), "l"(from),
                 "r"(count > 0 ? 16 : 0)
                 : "memory");
    return;
  }
  alignas(16) T part[kWide];
#pragma unroll
  for (int i = 0; i < kWide; ++i) {
    part[i] = i < count ? from[i] : T(0.0f);
  }
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(part);
}

// Where 16 bytes lie in a part of kTile rows of kDepth elements, or the other way round. Bits are exchanged such that
// the eight that are read at the same time lie in different banks.
__device__ int place_in_rows(int row, int chunk) { return (row * (kDepth / kWide) + (chunk ^ (row / 2 % 4))) * kWide; }

__device__ int place_in_columns(int k, int chunk) { return (k * (kTile / kWide) + (chunk ^ (k % 8))) * kWide; }

template <bool kTransposed>
__device__ void load(unsigned (&to)[4], const void* from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address_of(from))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address_of(from))
                 : "memory");
  }
}

template <typename T>
__device__ void multiply_fragment(float (&sums)[4], const unsigned (&left)[4], unsigned low, unsigned high) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
  }
}

// A warp: where the tiles of each expert begin, counted in rows of tiles; the last is how many there are.
__device__ void find_tiles(std::int32_t* first_tile, const Product& tensors) {
  std::int32_t all = 0;
  for (std::int64_t first = 0; first < tensors.experts; first += 32) {
    const std::int64_t i = first + threadIdx.x;
    std::int32_t sum = 0;
    if (i < tensors.experts) {
      sum = (tensors.offsets[i + 1] - tensors.offsets[i] + kTile - 1) / kTile;
    }
    const std::int32_t own = sum;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const std::int32_t other = __shfl_up_sync(~0u, sum, distance);
      sum += static_cast<int>(threadIdx.x) >= distance ? other : 0;
    }
    if (i < tensors.experts) {
      first_tile[i] = all + sum - own;
    }
    all += __shfl_sync(~0u, sum, 31);
  }
  if (threadIdx.x == 0) {
    first_tile[tensors.experts] = all;
  }
}

// A part of the output: rows of one expert.
struct Place {
  std::int64_t expert;
  std::int64_t row;
  std::int64_t column;
  int rows;  // that the expert has there, at most kTile
};

__device__ Place place_of(std::int64_t tile, const std::int32_t* first_tile, std::int64_t across,
                          const Product& tensors) {
  const std::int64_t row_of_tiles = tile / across;
  int low = 0;
  int high = static_cast<int>(tensors.experts);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (first_tile[middle] <= row_of_tiles ? low : high) = middle;
  }
  const std::int64_t down = first_tile[low + 1] - first_tile[low];
  const std::int64_t own = tile - first_tile[low] * across;
  const std::int64_t band = own / (kBand * across);
  const std::int64_t in_band = min(static_cast<std::int64_t>(kBand), down - band * kBand);
  const std::int64_t rest = own - band * kBand * across;
  const std::int64_t row = tensors.offsets[low] + (band * kBand + rest % in_band) * kTile;
  return {low, row, rest / in_band * kTile,
          static_cast<int>(min(static_cast<std::int64_t>(kTile), tensors.offsets[low + 1] - row))};
}

template <typename T, bool kByColumns>
__global__ void __launch_bounds__(kThreads, kBlocks) multiply_experts(Product tensors, bool aligned_x, bool aligned_w) {
  extern __shared__ uint4 shared[];
  __shared__ std::int32_t first_tile[kMostExperts + 1];
  T* const parts = reinterpret_cast<T*>(shared);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int down = warp / kWarpsAcross * kDown * 16;
  const int across = warp % kWarpsAcross * kAcross * 8;
  const std::int64_t tiles_across = (tensors.columns + kTile - 1) / kTile;
  const std::int64_t steps = (tensors.depth + kDepth - 1) / kDepth;
  const bool aligned_out = tensors.columns % kWide == 0;
  if (warp == 0) {
    find_tiles(first_tile, tensors);
  }
  __syncthreads();
  const std::int64_t tiles = first_tile[tensors.experts] * tiles_across;
  // What this thread copies in each step: 16 bytes of two rows of x, and two of the weight.
  constexpr int kRowChunks = kDepth / kWide;
  constexpr int kColumnChunks = kTile / kWide;
  const int own_row = threadIdx.x / kRowChunks;
  const int own_chunk = threadIdx.x % kRowChunks;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Place place = place_of(tile, first_tile, tiles_across, tensors);
    const T* const weight = static_cast<const T*>(tensors.weights) + place.expert * tensors.expert_stride;
    const T* rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = min(own_row + i * (kTile / 2), place.rows - 1);
      const std::int64_t source = tensors.sources ? tensors.sources[place.row + row] : place.row + row;
      rows[i] = static_cast<const T*>(tensors.x) + source * tensors.x_stride;
    }
    const auto copy_step = [&](std::int64_t step) {
      T* const left = parts + step % kSteps * 2 * kPart;
      T* const right = left + kPart;
      const std::int64_t k = step * kDepth + own_chunk * kWide;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = own_row + i * (kTile / 2);
        const std::int64_t count = row < place.rows ? tensors.depth - k : 0;
        copy(left + place_in_rows(row, own_chunk), count > 0 ? rows[i] + k : rows[i], count, aligned_x);
        if constexpr (kByColumns) {
          const std::int64_t there = place.column + row < tensors.columns ? tensors.depth - k : 0;
          copy(right + place_in_rows(row, own_chunk),
               there > 0 ? weight + (place.column + row) * tensors.weight_stride + k : weight, there, aligned_w);
        } else {
          const int of_step = threadIdx.x / kColumnChunks + i * (kDepth / 2);
          const int chunk = threadIdx.x % kColumnChunks;
          const std::int64_t column = place.column + chunk * kWide;
          const std::int64_t there = step * kDepth + of_step < tensors.depth ? tensors.columns - column : 0;
          copy(right + place_in_columns(of_step, chunk),
               there > 0 ? weight + (step * kDepth + of_step) * tensors.weight_stride + column : weight, there,
               aligned_w);
        }
      }
    };
    const auto end_of_group = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };
    // Fragments of rows that the expert does not have are left out.
    const int live = (place.rows - down + 15) / 16;
    float sums[kDown][kAcross][4] = {};
    for (int step = 0; step < kSteps - 1; ++step) {
      if (step < steps) {
        copy_step(step);
      }
      end_of_group();
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kSteps - 2) : "memory");
      __syncthreads();
      if (step + kSteps - 1 < steps) {
        copy_step(step + kSteps - 1);
      }
      end_of_group();
      const T* const left = parts + step % kSteps * 2 * kPart;
      const T* const right = left + kPart;
#pragma unroll
      for (int k = 0; k < kDepth; k += 16) {
        unsigned from_right[kAcross / 2][4];
#pragma unroll
        for (int j = 0; j < kAcross / 2; ++j) {
          const int column = across + j * 16;
          if constexpr (kByColumns) {
            load<false>(from_right[j], right + place_in_rows(column + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2));
          } else {
            load<true>(from_right[j], right + place_in_columns(k + lane % 16, column / 8 + lane / 16));
          }
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
          if (i < live) {
            unsigned from_left[4];
            load<false>(from_left, left + place_in_rows(down + i * 16 + lane % 16, k / 8 + lane / 16));
#pragma unroll
            for (int j = 0; j < kAcross; ++j) {
              const unsigned* const both = from_right[j / 2] + j % 2 * 2;
              multiply_fragment<T>(sums[i][j], from_left, both[0], both[1]);
            }
          }
        }
      }
    }
    // The result goes through shared memory, so that rows are stored 16 bytes at a time.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          T* const to = parts + (down + i * 16 + half * 8 + lane / 4) * kPitch + across + j * 8 + lane % 4 * 2;
          to[0] = T(sums[i][j][half * 2]);
          to[1] = T(sums[i][j][half * 2 + 1]);
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < place.rows * kColumnChunks; i += kThreads) {
      const T* const from = parts + i / kColumnChunks * kPitch + i % kColumnChunks * kWide;
      const std::int64_t column = place.column + i % kColumnChunks * kWide;
      T* const to = static_cast<T*>(tensors.out) + (place.row + i / kColumnChunks) * tensors.columns + column;
      if (aligned_out && column < tensors.columns) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
      } else {
        for (int k = 0; k < kWide && column + k < tensors.columns; ++k) {
          to[k] = from[k];
        }
      }
    }
    __syncthreads();
  }
}

template <typename T, bool kByColumns>
int launch(const Product& tensors, cudaStream_t stream) {
  const auto are_wide = [](auto... counts) { return ((counts | ...) % kWide) == 0; };
  const auto is_aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
  const bool aligned_x = is_aligned(tensors.x) && are_wide(tensors.x_stride, tensors.depth);
  const bool aligned_w = is_aligned(tensors.weights) && are_wide(tensors.weight_stride, tensors.expert_stride,
                                                                 kByColumns ? tensors.depth : tensors.columns);
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const auto kernel = multiply_experts<T, kByColumns>;
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared)) {
    return error;
  }
  // How many tiles there are at most: each expert may have one that is not full.
  const std::int64_t tiles = (tensors.rows / kTile + std::min(tensors.rows, tensors.experts)) *
                             ((tensors.columns + kTile - 1) / kTile);
  const std::int64_t blocks = std::min<std::int64_t>(tiles, processors * kBlocks);
  kernel<<<static_cast<unsigned>(blocks), kThreads, kShared, stream>>>(tensors, aligned_x, aligned_w);
  return cudaGetLastError();
}

template <typename T>
int multiply_as(const Product& tensors, cudaStream_t stream) {
  return tensors.by_columns ? launch<T, true>(tensors, stream) : launch<T, false>(tensors, stream);
}

}  // namespace

int multiply(Type type, const Product& tensors, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return type == Type::float16 ? multiply_as<__half>(tensors, on) : multiply_as<__nv_bfloat16>(tensors, on);
}

[% endraw %]
}  // namespace [[ module ]]_impl
[% endif %]
