[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "debug.h"
#include "hopper.h"

namespace [[ module ]]_impl {
namespace {

// For GPUs that are no Hopper, with no tensor cores: a block makes kTile x kTile of the output, a thread kEach x kEach.
constexpr int kTile = 64;
constexpr int kDepth = 32;
constexpr int kEach = 4;
constexpr int kAcross = kTile / kEach;
constexpr int kThreads = kAcross * kAcross;

static_assert(kBlock % kDepth == 0, "a step of the depth has one scale");

// A step of kTile rows of a matrix, as float32; what lies outside of the matrix is 0. A column more than is read keeps
// threads of a warp in banks of their own.
struct Tile {
  float values[kTile][kDepth + 1];

  __device__ void read(const __nv_fp8_e4m3* matrix, std::int64_t first_row, std::int64_t first_k, std::int64_t rows,
                       std::int64_t depth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const std::int64_t row = first_row + i / kDepth;
      const std::int64_t k = first_k + i % kDepth;
      values[i / kDepth][i % kDepth] = row < rows && k < depth ? static_cast<float>(matrix[row * depth + k]) : 0.0f;
    }
  }
};

template <typename Out>
__global__ void __launch_bounds__(kThreads)
    multiply(Out* __restrict__ out, const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
             Sizes sizes, Scales scales) {
  __shared__ Tile left;
  __shared__ Tile right;
  const int down = threadIdx.x / kAcross;
  const int across = threadIdx.x % kAcross;
  const std::int64_t first_row = blockIdx.x * static_cast<std::int64_t>(kTile);
  for (std::int64_t first_column = blockIdx.y * static_cast<std::int64_t>(kTile); first_column < sizes.columns;
       first_column += gridDim.y * static_cast<std::int64_t>(kTile)) {
    const auto row_of = [&](int i) { return first_row + down + i * kAcross; };
    const auto column_of = [&](int j) { return first_column + across + j * kAcross; };
    const auto scale_of = [&](int i, int j, std::int64_t block) {
      const std::int64_t row = min(row_of(i), sizes.rows - 1);
      const std::int64_t column = min(column_of(j), sizes.columns - 1);
      return scales.a[row * scales.a_row + block * scales.a_step] *
             scales.b[block * scales.b_step + (scales.blocks ? column / kBlock : column) * scales.b_column];
    };
    float sums[kEach][kEach] = {};
    float parts[kEach][kEach] = {};
    for (std::int64_t k = 0; k < sizes.depth; k += kDepth) {
      __syncthreads();
      left.read(a, first_row, k, sizes.rows, sizes.depth);
      right.read(b, first_column, k, sizes.columns, sizes.depth);
      __syncthreads();
#pragma unroll 8
      for (int at = 0; at < kDepth; ++at) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            parts[i][j] += left.values[down + i * kAcross][at] * right.values[across + j * kAcross][at];
          }
        }
      }
      if ((k + kDepth) % kBlock == 0 || k + kDepth >= sizes.depth) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            sums[i][j] += scales.blocks ? parts[i][j] * scale_of(i, j, k / kBlock) : parts[i][j];
            parts[i][j] = 0.0f;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        if (row_of(i) < sizes.rows && column_of(j) < sizes.columns) {
          const float sum = scales.blocks ? sums[i][j] : sums[i][j] * scale_of(i, j, 0);
          out[row_of(i) * sizes.columns + column_of(j)] = static_cast<Out>(sum);
        }
      }
    }
  }
}

template <typename Out>
int run_as(void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales, cudaStream_t stream) {
  const std::int64_t across = (sizes.columns + kTile - 1) / kTile;
  const dim3 blocks(static_cast<unsigned>((sizes.rows + kTile - 1) / kTile),
                    static_cast<unsigned>(across < 65535 ? across : 65535));
  multiply<<<blocks, kThreads, 0, stream>>>(static_cast<Out*>(out), static_cast<const __nv_fp8_e4m3*>(a),
                                            static_cast<const __nv_fp8_e4m3*>(b), sizes, scales);
  return cudaGetLastError();
}

}  // namespace

std::int64_t scratch_bytes(const void* a, const void* b, const Sizes& sizes) {
#if __CUDACC_VER_MAJOR__ >= 12
  return scratch_on_hopper(a, b, sizes);
#else
  return 0;
#endif
}

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales, bool fast,
        void* scratch, void* stream) {
  if (sizes.rows == 0 || sizes.columns == 0) {
    return cudaSuccess;
  }
#if __CUDACC_VER_MAJOR__ >= 12
  const int result = run_on_hopper(type, out, a, b, sizes, scales, fast, scratch, stream);
  if (result != kNotForHopper) {
    return result;
  }
#endif
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float16:
      return run_as<__half>(out, a, b, sizes, scales, on);
    case Type::bfloat16:
      return run_as<__nv_bfloat16>(out, a, b, sizes, scales, on);
    case Type::float32:
      return run_as<float>(out, a, b, sizes, scales, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
