[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cstddef>
#include <type_traits>

#include "debug.h"
[% block headers %]
[% endblock %]

namespace [[ module ]]_impl {
namespace {

namespace wmma = nvcuda::wmma;

// A block makes kTile x kTile of the output, in steps of kDepth; each warp makes kDown x kAcross fragments of that.
constexpr int kFragment = 16;
constexpr int kTile = 128;
constexpr int kDepth = 32;
constexpr int kDown = 4;
constexpr int kAcross = 2;
constexpr int kWarpsAcross = kTile / kFragment / kAcross;
constexpr int kWarps = kTile / kFragment / kDown * kWarpsAcross;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlocks = 2;  // on a multiprocessor at the same time: one computes while the other one reads

// What a thread reads at once.
using Vector = uint4;

// A part of a matrix in shared memory, as fragments that lie one after the other: each is aligned for WMMA.
template <typename T, int kRows, int kColumns>
struct alignas(32) Tile {
  static constexpr int kWide = sizeof(Vector) / sizeof(T);
  static constexpr int kEach = kRows * kColumns / kWide / kThreads;
  T values[kRows * kColumns];

  __device__ const T* fragment(int row, int column) const {
    return values + (row * (kColumns / kFragment) + column) * kFragment * kFragment;
  }

  // Reads a thread's share of a part of a matrix into registers; what lies outside of the matrix is 0.
  __device__ static void read(Vector (&to)[kEach], const T* matrix, std::int64_t first_row, std::int64_t first_column,
                              std::int64_t rows, std::int64_t columns, bool aligned) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int place = i * kThreads + threadIdx.x;
      const std::int64_t row = first_row + place / (kColumns / kWide);
      const std::int64_t column = first_column + place % (kColumns / kWide) * kWide;
      const T* from = matrix + row * columns + column;
      to[i] = Vector{0, 0, 0, 0};
      if (row < rows && column + kWide <= columns && aligned) {
        to[i] = *reinterpret_cast<const Vector*>(from);
      } else if (row < rows) {
        for (int k = 0; k < kWide && column + k < columns; ++k) {
          reinterpret_cast<T*>(&to[i])[k] = from[k];
        }
      }
    }
  }

  __device__ void put(const Vector (&read)[kEach]) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int place = i * kThreads + threadIdx.x;
      const int row = place / (kColumns / kWide);
      const int column = place % (kColumns / kWide) * kWide;
      const int in_fragment = row % kFragment * kFragment + column % kFragment;
      const int before = row / kFragment * (kColumns / kFragment) + column / kFragment;
      *reinterpret_cast<Vector*>(values + before * kFragment * kFragment + in_fragment) = read[i];
    }
  }
};

template <typename In, typename Sum, typename Out, bool kByColumns>
__global__ void __launch_bounds__(kThreads, kBlocks)
    multiply(Out* __restrict__ out, const In* __restrict__ a, const In* __restrict__ b, Sizes sizes, bool aligned_a,
             bool aligned_b) {
  using Left = Tile<In, kTile, kDepth>;
  // Column by column, the part of b is kept transposed, and so are its fragments.
  using Right = std::conditional_t<kByColumns, Tile<In, kTile, kDepth>, Tile<In, kDepth, kTile>>;
  using RightOrder = std::conditional_t<kByColumns, wmma::col_major, wmma::row_major>;
  const auto read_right = [&](Vector(&to)[Right::kEach], std::int64_t k, std::int64_t column) {
    if constexpr (kByColumns) {
      Right::read(to, b, column, k, sizes.columns, sizes.depth, aligned_b);
    } else {
      Right::read(to, b, k, column, sizes.depth, sizes.columns, aligned_b);
    }
  };
  __shared__ Left left;
  __shared__ Right right;
  __shared__ __align__(32) Sum result[kWarps][kFragment * kFragment];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int down = warp / kWarpsAcross * kDown;
  const int across = warp % kWarpsAcross * kAcross;
  const std::int64_t first_row = blockIdx.x * static_cast<std::int64_t>(kTile);
  for (std::int64_t first_column = blockIdx.y * static_cast<std::int64_t>(kTile); first_column < sizes.columns;
       first_column += gridDim.y * static_cast<std::int64_t>(kTile)) {
    wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, Sum> sums[kDown][kAcross];
    for (auto& row : sums) {
      for (auto& sum : row) {
        wmma::fill_fragment(sum, static_cast<Sum>(0));
      }
    }
    Vector next_left[Left::kEach];
    Vector next_right[Right::kEach];
    Left::read(next_left, a, first_row, 0, sizes.rows, sizes.depth, aligned_a);
    read_right(next_right, 0, first_column);
    for (std::int64_t k = 0; k < sizes.depth; k += kDepth) {
      __syncthreads();
      left.put(next_left);
      right.put(next_right);
      __syncthreads();
      // The next step is on its way while this one is computed.
      if (k + kDepth < sizes.depth) {
        Left::read(next_left, a, first_row, k + kDepth, sizes.rows, sizes.depth, aligned_a);
        read_right(next_right, k + kDepth, first_column);
      }
#pragma unroll
      for (int step = 0; step < kDepth / kFragment; ++step) {
        wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, In, wmma::row_major> from_left[kDown];
        wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, In, RightOrder> from_right[kAcross];
        for (int i = 0; i < kDown; ++i) {
          wmma::load_matrix_sync(from_left[i], left.fragment(down + i, step), kFragment);
        }
        for (int j = 0; j < kAcross; ++j) {
          const In* const fragment = kByColumns ? right.fragment(across + j, step) : right.fragment(step, across + j);
          wmma::load_matrix_sync(from_right[j], fragment, kFragment);
        }
        for (int i = 0; i < kDown; ++i) {
          for (int j = 0; j < kAcross; ++j) {
            wmma::mma_sync(sums[i][j], from_left[i], from_right[j], sums[i][j]);
          }
        }
      }
    }
    for (int i = 0; i < kDown; ++i) {
      for (int j = 0; j < kAcross; ++j) {
        wmma::store_matrix_sync(result[warp], sums[i][j], kFragment, wmma::mem_row_major);
        __syncwarp();
        for (int element = lane; element < kFragment * kFragment; element += 32) {
          const std::int64_t row = first_row + (down + i) * kFragment + element / kFragment;
          const std::int64_t column = first_column + (across + j) * kFragment + element % kFragment;
          if (row < sizes.rows && column < sizes.columns) {
            out[row * sizes.columns + column] = static_cast<Out>(result[warp][element]);
          }
        }
        __syncwarp();
      }
    }
  }
}

// Whether whole vectors can be read anywhere in a matrix.
bool is_aligned(const void* matrix, std::int64_t columns, std::size_t size) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vector) == 0 && columns * size % sizeof(Vector) == 0;
}

template <typename In, typename Sum, typename Out>
int run_as(void* out, const void* a, const void* b, const Sizes& sizes, cudaStream_t stream) {
  const std::int64_t across = (sizes.columns + kTile - 1) / kTile;
  const dim3 blocks(static_cast<unsigned>((sizes.rows + kTile - 1) / kTile),
                    static_cast<unsigned>(across < 65535 ? across : 65535));
  const auto function = sizes.by_columns ? multiply<In, Sum, Out, true> : multiply<In, Sum, Out, false>;
  function<<<blocks, kThreads, 0, stream>>>(
      static_cast<Out*>(out), static_cast<const In*>(a), static_cast<const In*>(b), sizes,
      is_aligned(a, sizes.depth, sizeof(In)),
      is_aligned(b, sizes.by_columns ? sizes.depth : sizes.columns, sizeof(In)));
  return cudaGetLastError();
}

}  // namespace

[% block scratch %]
[% endblock %]
int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes[% block argument %][% endblock %], void* stream) {
  if (sizes.rows == 0 || sizes.columns == 0) {
    return cudaSuccess;
  }
[% block faster %]
[% endblock %]
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float16:
      return run_as<__half, float, __half>(out, a, b, sizes, on);
    case Type::narrow_float16:
      return run_as<__half, __half, __half>(out, a, b, sizes, on);
    case Type::bfloat16:
      return run_as<__nv_bfloat16, float, __nv_bfloat16>(out, a, b, sizes, on);
    case Type::int8:
      return run_as<signed char, int, int>(out, a, b, sizes, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
