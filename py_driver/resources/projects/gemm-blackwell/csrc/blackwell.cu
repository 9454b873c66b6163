[% if cuda %]
#include "blackwell.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "blackwell_kernel.h"
#include "blackwell_tiles.h"
#include "matrices.h"

namespace [[ module ]]_impl {
namespace {

[% include "projects/parts/tensor_map.cpp" %]
[% raw %]
// The multiprocessors of the current GPU, 0 if its capability is not 10.0: code for 10.0a runs on no other.
int blackwell_processors() {
  int device = 0;
  int major = 0;
  int minor = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return major == 10 && minor == 0 ? processors : 0;
}

bool fits(Type type, const void* a, const void* b, const Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::int64_t length = sizes.by_columns ? sizes.depth : sizes.columns;
  return (type == Type::float16 || type == Type::bfloat16) && sizes.depth > 0 &&
         std::max({sizes.rows, sizes.columns, sizes.depth}) <= kMost &&
         parts(sizes.rows, kRows) * parts(sizes.columns, Narrow::kColumns) <= kMost && is_aligned(a, 2 * sizes.depth) &&
         is_aligned(b, 2 * length);
}

template <typename T, bool kByColumns, class Shape>
int launch(T* out, const void* a, const void* b, const Sizes& sizes, int processors, cudaStream_t stream) {
  CUtensorMap left;
  CUtensorMap right;
  CUtensorMap map = {};
  const Output output = {out, static_cast<int>(sizes.rows), static_cast<int>(sizes.columns),
                         is_aligned(out, sizes.columns * static_cast<std::int64_t>(sizeof(T)))};
  const Matrix b_matrix = kByColumns ? Matrix{b, sizes.depth, sizes.columns, sizes.depth}
                                     : Matrix{b, sizes.columns, sizes.depth, sizes.columns};
  if (!encode<T>(left, {a, sizes.depth, sizes.rows, sizes.depth}, kRows) ||
      !encode<T>(right, b_matrix, kByColumns ? Shape::kColumns : kDepth) ||
      (output.by_tma && !encode<T>(map, {out, sizes.columns, sizes.rows, sizes.columns}, kPartRows))) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_on_blackwell<T, kByColumns, Shape>;
  constexpr int kMemory = sizeof(Memory<Shape>);
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const Tiles tiles = {static_cast<int>(parts(sizes.rows, kRows)),
                       static_cast<int>(parts(sizes.columns, Shape::kColumns)),
                       static_cast<int>(parts(sizes.depth, kDepth))};
  const auto blocks = std::min<std::int64_t>(static_cast<std::int64_t>(tiles.down) * tiles.across, processors);
  function<<<static_cast<unsigned>(blocks), kThreads, kMemory, stream>>>(left, right, map, output, tiles);
  return cudaGetLastError();
}

// How many columns each multiprocessor makes if all make tiles of one shape, round after round.
template <class Shape>
std::int64_t columns_each(const Sizes& sizes, int processors) {
  return parts(parts(sizes.rows, kRows) * parts(sizes.columns, Shape::kColumns), processors) * Shape::kColumns;
}

template <typename T, bool kByColumns>
int run_as(void* out, const void* a, const void* b, const Sizes& sizes, int processors, cudaStream_t stream) {
  const bool narrow = columns_each<Narrow>(sizes, processors) < columns_each<Wide>(sizes, processors);
  return narrow ? launch<T, kByColumns, Narrow>(static_cast<T*>(out), a, b, sizes, processors, stream)
                : launch<T, kByColumns, Wide>(static_cast<T*>(out), a, b, sizes, processors, stream);
}

}  // namespace

int run_on_blackwell(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* stream) {
  const int processors = blackwell_processors();
  if (processors == 0 || !fits(type, a, b, sizes)) {
    return kNotForBlackwell;
  }
  const auto on = static_cast<cudaStream_t>(stream);
  if (type == Type::float16) {
    return sizes.by_columns ? run_as<__half, true>(out, a, b, sizes, processors, on)
                            : run_as<__half, false>(out, a, b, sizes, processors, on);
  }
  return sizes.by_columns ? run_as<__nv_bfloat16, true>(out, a, b, sizes, processors, on)
                          : run_as<__nv_bfloat16, false>(out, a, b, sizes, processors, on);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
