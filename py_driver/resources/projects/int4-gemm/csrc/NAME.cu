[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "debug.h"
#include "hopper.h"

namespace [[ module ]]_impl {
namespace {

// A block makes kColumns of the output for kTiles * kTileRows rows of x. Its warps share the depth out: what limits the
// speed for few rows is how fast the weights come from memory, so many of them are on their way at the same time.
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kColumns = 16;
constexpr int kTileRows = 8;

// 32 * kWords weights of a row are read by four threads, kWords words of 8 weights each.
template <int kWords>
struct alignas(4 * kWords) Words {
  unsigned of[kWords];
};

// Weights 0 and 4 of a word, as floating point numbers, the first one in the low half. Shifting the word brings the
// next two. A weight w, with its sign bit flipped, is w + 8; as the lowest bits of 1024 (128 for bfloat16) it is exact.
template <typename T>
__device__ unsigned pair_of(unsigned word) {
  if constexpr (std::is_same_v<T, __half>) {
    const unsigned biased = (word & 0x000f000fu) ^ 0x64086408u;
    const __half2 offset = __float2half2_rn(1032.0f);
    const __half2 result = __hsub2(*reinterpret_cast<const __half2*>(&biased), offset);
    return *reinterpret_cast<const unsigned*>(&result);
  } else {
    const unsigned biased = (word & 0x000f000fu) ^ 0x43084308u;
    const __nv_bfloat162 offset = __float2bfloat162_rn(136.0f);
    const __nv_bfloat162 result = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&biased), offset);
    return *reinterpret_cast<const unsigned*>(&result);
  }
}

// sums += weights (16 columns x 16) @ x (16 x 8 rows), by the tensor cores of a warp.
template <typename T>
__device__ void multiply(float (&sums)[4], const unsigned (&weights)[4], unsigned low, unsigned high) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "r"(low), "r"(high));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "r"(low), "r"(high));
  }
}

template <typename T, int kWords, int kTiles>
__global__ void __launch_bounds__(kThreads)
    multiply_int4(T* __restrict__ out, const T* __restrict__ x, const unsigned char* __restrict__ weight,
                  const T* __restrict__ scales, Sizes sizes) {
  using Own = Words<kWords>;
  constexpr int kStep = 32 * kWords;
  __shared__ float parts[kWarps][kTiles * kTileRows][kColumns + 1];
  const int warp = threadIdx.x / 32;
  const int place = threadIdx.x % 32 / 4;  // of two columns, and of a row in each tile
  const int quarter = threadIdx.x % 4;     // of a step
  const std::int64_t first_row = blockIdx.x * static_cast<std::int64_t>(kTiles * kTileRows);
  const std::int64_t first_column = blockIdx.y * static_cast<std::int64_t>(kColumns);
  // What is beyond the last row or column is computed as that one is, and not stored.
  const std::int64_t groups = sizes.depth / sizes.group;
  const unsigned char* from[2];
  const T* scale[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t column = min(first_column + place + 8 * i, sizes.columns - 1);
    from[i] = weight + column * (sizes.depth / 2) + quarter * sizeof(Own);
    scale[i] = scales + column * groups;
  }
  const T* rows[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const std::int64_t row = min(first_row + tile * kTileRows + place, sizes.rows - 1);
    rows[tile] = x + row * sizes.depth + quarter * 8 * kWords;
  }
  float sums[kTiles][4] = {};
#pragma unroll(kTiles == 1 ? 4 : 1)
  for (std::int64_t k = warp * kStep; k < sizes.depth; k += kWarps * kStep) {
    const Own words[2] = {*reinterpret_cast<const Own*>(from[0] + k / 2),
                          *reinterpret_cast<const Own*>(from[1] + k / 2)};
    const std::int64_t group = k / sizes.group;
    const float factors[2] = {static_cast<float>(scale[0][group]), static_cast<float>(scale[1][group])};
    float own[kTiles][4] = {};
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      unsigned pairs[2][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pairs[0][j] = pair_of<T>(words[0].of[i] >> (4 * j));
        pairs[1][j] = pair_of<T>(words[1].of[i] >> (4 * j));
      }
      const unsigned weights[2][4] = {{pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]},
                                      {pairs[0][2], pairs[1][2], pairs[0][3], pairs[1][3]}};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        // Eight elements of x, paired as the weights are: 0 and 4, 1 and 5, 2 and 6, 3 and 7.
        constexpr unsigned kLow = 0x5410;
        constexpr unsigned kHigh = 0x7632;
        const uint4 x = *reinterpret_cast<const uint4*>(rows[tile] + k + 8 * i);
        multiply<T>(own[tile], weights[0], __byte_perm(x.x, x.z, kLow), __byte_perm(x.x, x.z, kHigh));
        multiply<T>(own[tile], weights[1], __byte_perm(x.y, x.w, kLow), __byte_perm(x.y, x.w, kHigh));
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[tile][i] += own[tile][i] * factors[i / 2];
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      parts[warp][tile * kTileRows + quarter * 2 + i % 2][place + i / 2 * 8] = sums[tile][i];
    }
  }
  __syncthreads();
  for (int element = threadIdx.x; element < kTiles * kTileRows * kColumns; element += kThreads) {
    const std::int64_t row = first_row + element / kColumns;
    const std::int64_t column = first_column + element % kColumns;
    if (row < sizes.rows && column < sizes.columns) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
        sum += parts[i][element / kColumns][element % kColumns];
      }
      out[row * sizes.columns + column] = T(sum);
    }
  }
}

// Two weights times their scale, rounded once.
template <typename T>
__device__ unsigned scaled(unsigned pair, T scale) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 result = __hmul2(*reinterpret_cast<const __half2*>(&pair), __half2half2(scale));
    return *reinterpret_cast<const unsigned*>(&result);
  } else {
    const __nv_bfloat162 result = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&pair), __bfloat162bfloat162(scale));
    return *reinterpret_cast<const unsigned*>(&result);
  }
}

// A block has a row of the weight, a thread eight weights at once.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    widen_int4(T* __restrict__ wide, const unsigned* __restrict__ weight, const T* __restrict__ scales, Sizes sizes) {
  const std::int64_t column = blockIdx.x;
  const std::int64_t words = sizes.depth / 8;
  const T* own = scales + column * (sizes.depth / sizes.group);
  for (std::int64_t i = threadIdx.x; i < words; i += kThreads) {
    const unsigned word = weight[column * words + i];
    const T scale = own[8 * i / sizes.group];
    unsigned pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = scaled<T>(pair_of<T>(word >> (4 * j)), scale);
    }
    constexpr unsigned kLow = 0x5410;
    constexpr unsigned kHigh = 0x7632;
    reinterpret_cast<uint4*>(wide)[column * words + i] = {
        __byte_perm(pairs[0], pairs[1], kLow), __byte_perm(pairs[2], pairs[3], kLow),
        __byte_perm(pairs[0], pairs[1], kHigh), __byte_perm(pairs[2], pairs[3], kHigh)};
  }
}

template <typename T>
int widen_as(void* wide, const void* weight, const void* scales, const Sizes& sizes, cudaStream_t stream) {
  widen_int4<<<static_cast<unsigned>(sizes.columns), kThreads, 0, stream>>>(
      static_cast<T*>(wide), static_cast<const unsigned*>(weight), static_cast<const T*>(scales), sizes);
  return cudaGetLastError();
}

template <typename T, int kWords, int kTiles>
int launch(T* out, const T* x, const unsigned char* weight, const T* scales, const Sizes& sizes, cudaStream_t stream) {
  constexpr int kRows = kTiles * kTileRows;
  const dim3 blocks(static_cast<unsigned>((sizes.rows + kRows - 1) / kRows),
                    static_cast<unsigned>((sizes.columns + kColumns - 1) / kColumns));
  multiply_int4<T, kWords, kTiles><<<blocks, kThreads, 0, stream>>>(out, x, weight, scales, sizes);
  return cudaGetLastError();
}

template <typename T, int kWords>
int run_rows(T* out, const T* x, const unsigned char* weight, const T* scales, const Sizes& sizes,
             cudaStream_t stream) {
  return sizes.rows <= kTileRows       ? launch<T, kWords, 1>(out, x, weight, scales, sizes, stream)
         : sizes.rows <= 2 * kTileRows ? launch<T, kWords, 2>(out, x, weight, scales, sizes, stream)
                                       : launch<T, kWords, 8>(out, x, weight, scales, sizes, stream);
}

template <typename T>
int run_as(void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes, cudaStream_t stream) {
  // A step has the weights of one group.
  const auto function = sizes.group % 128 == 0  ? run_rows<T, 4>
                        : sizes.group % 64 == 0 ? run_rows<T, 2>
                                                : run_rows<T, 1>;
  return function(static_cast<T*>(out), static_cast<const T*>(x), static_cast<const unsigned char*>(weight),
                  static_cast<const T*>(scales), sizes, stream);
}

}  // namespace

bool is_faster_wide(const Sizes& sizes) {
#if __CUDACC_VER_MAJOR__ >= 12
  return sizes.rows > kFewRows && !is_for_hopper(sizes);
#else
  return sizes.rows > kFewRows;
#endif
}

int run(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes, void* stream) {
#if __CUDACC_VER_MAJOR__ >= 12
  if (is_for_hopper(sizes)) {
    return run_on_hopper(type, out, x, weight, scales, sizes, stream);
  }
#endif
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float16:
      return run_as<__half>(out, x, weight, scales, sizes, on);
    case Type::bfloat16:
      return run_as<__nv_bfloat16>(out, x, weight, scales, sizes, on);
  }
  return cudaErrorInvalidValue;
}

int widen(Type type, void* wide, const void* weight, const void* scales, const Sizes& sizes, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float16:
      return widen_as<__half>(wide, weight, scales, sizes, on);
    case Type::bfloat16:
      return widen_as<__nv_bfloat16>(wide, weight, scales, sizes, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
