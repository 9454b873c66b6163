[% if cuda %]
#include "hopper.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "hopper_kernel.h"
#include "hopper_memory.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// Rows that experts have on average, from which on these tiles are faster than those of the other kernel, as measured
// on an H200: few experts have too few large tiles for all multiprocessors. So has a small product.
constexpr std::int64_t kRowsOfFew = 8;
constexpr std::int64_t kRowsOfMany = 1;
constexpr std::int64_t kManyExperts = 64;
constexpr std::int64_t kSmall = std::int64_t{1} << 26;

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

bool fits(const Product& tensors) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::int64_t least = (tensors.experts < kManyExperts ? kRowsOfFew : kRowsOfMany) * tensors.experts;
  return tensors.depth > 0 && std::max({tensors.rows, tensors.columns, tensors.depth}) <= kMost &&
         tensors.rows >= least && tensors.rows * tensors.columns > kSmall / tensors.depth && are_readable(tensors);
}

// Cycles that tiles of so many columns take, as counted here: a multiprocessor needs `step` for each step of the depth
// and `tile` for each tile, and tiles come in rounds of one for each multiprocessor. On average half of an expert's
// last row of tiles is empty, and the first row is there for few rows, too.
std::int64_t cycles_of(const Product& tensors, int processors, int columns, std::int64_t step, std::int64_t tile) {
  const std::int64_t experts = std::min(tensors.experts, tensors.rows);
  const std::int64_t down = std::max(experts, parts(tensors.rows + experts * kHalfRows, kTileRows));
  return parts(down * parts(tensors.columns, columns), processors) * (parts(tensors.depth, kStepDepth) * step + tile);
}

template <typename T, bool kByColumns, int kColumns>
int launch(const Product& tensors, void* scratch, int processors, cudaStream_t stream) {
  CUtensorMap x;
  CUtensorMap weights;
  CUtensorMap map = {};
  const bool aligned = is_aligned(tensors.out) && tensors.columns % kChunk == 0;
  const Matrices right = {tensors.weights,
                          kByColumns ? tensors.depth : tensors.columns,
                          kByColumns ? tensors.columns : tensors.depth,
                          tensors.experts,
                          tensors.weight_stride,
                          tensors.experts == 1 ? tensors.weight_stride : tensors.expert_stride};
  const Matrices out = {tensors.out, tensors.columns, tensors.rows, 1, tensors.columns, tensors.columns};
  if (!encode<T>(weights, right, 3, kByColumns ? kColumns / kPair : kStepDepth) ||
      (aligned && !encode<T>(map, out, 2, kPartRows))) {
    return kNotForHopper;
  }
  if (!encode<T>(x, readable_rows<T>(tensors, scratch, stream), 3, kHalfRows)) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_tiles<T, kByColumns, kColumns>;
  constexpr int kMemory = sizeof(Memory<kColumns>);
  static_assert(kMemory <= kShared, "a block cannot have so much");
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const Output output = {tensors.out, static_cast<int>(tensors.columns), aligned};
  const Jobs jobs = {tensors.offsets, static_cast<int>(tensors.experts),
                     static_cast<int>(parts(tensors.columns, kColumns)),
                     static_cast<int>(parts(tensors.depth, kStepDepth))};
  function<<<static_cast<unsigned>(processors / kPair * kPair), kHopperThreads, kMemory, stream>>>(x, weights, map,
                                                                                                   output, jobs);
  return cudaGetLastError();
}

template <typename T>
int multiply_as(const Product& tensors, void* scratch, int processors, cudaStream_t stream) {
  const bool wide = cycles_of(tensors, processors, 256, 1024, 1000) <= cycles_of(tensors, processors, 128, 640, 700);
  if (tensors.by_columns) {
    return wide ? launch<T, true, 256>(tensors, scratch, processors, stream)
                : launch<T, true, 128>(tensors, scratch, processors, stream);
  }
  return wide ? launch<T, false, 256>(tensors, scratch, processors, stream)
              : launch<T, false, 128>(tensors, scratch, processors, stream);
}

}  // namespace

std::int64_t scratch_on_hopper(const Product& tensors) {
  return hopper_processors() == 0 || !fits(tensors) || is_readable(tensors)
             ? 0
             : tensors.rows * copy_pitch(tensors) * static_cast<std::int64_t>(sizeof(std::uint16_t));
}

int multiply_on_hopper(Type type, const Product& tensors, void* scratch, void* stream) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(tensors)) {
    return kNotForHopper;
  }
  const auto on = static_cast<cudaStream_t>(stream);
  return type == Type::float16 ? multiply_as<__half>(tensors, scratch, processors, on)
                               : multiply_as<__nv_bfloat16>(tensors, scratch, processors, on);
}
[% endraw %]
}  // namespace [[ module ]]_impl
[% endif %]
