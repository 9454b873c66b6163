[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "ampere_kernel.h"
#include "ampere_plan.h"
#include "debug.h"
#include "matrices.h"
#include "matrix_copies.h"
[% block headers %]
[% endblock %]

namespace [[ module ]]_impl {
namespace {
[% raw %]

std::int64_t size_of(Type type) { return type == Type::int8 ? 1 : 2; }

template <class Tile, bool kByColumns, typename In, typename Sum, typename Out>
int launch(ampere::Operands<In, Sum, Out> operands, const Sizes& sizes, int splits, cudaStream_t stream) {
  const auto function = ampere::multiply<In, Sum, Out, kByColumns, Tile>;
  // More than 48 KiB must be asked for.
  const cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
  if (error != cudaSuccess) {
    return error;
  }
  const std::int64_t tiles = parts(sizes.rows, Tile::kRows) * parts(sizes.columns, Tile::kColumns);
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(splits));
  const std::int64_t steps = parts(sizes.depth * sizeof(In), Tile::kStepBytes);
  operands.steps = static_cast<int>(steps / splits);
  operands.more = static_cast<int>(steps % splits);
  function<<<blocks, Tile::kThreads, Tile::shared_bytes(parts(steps, splits)), stream>>>(operands, sizes);
  return cudaGetLastError();
}

struct Run {
  Sizes sizes;
  ampere::Preparation prepared;
  void* out;
  unsigned char* memory;
  cudaStream_t stream;
};

template <typename In, typename Sum, typename Out, bool kByColumns>
int run_as(const Run& run, const void* a, const void* b) {
  const Sizes& sizes = run.sizes;
  const ampere::Scratch& scratch = run.prepared.scratch;
  const Matrix left = placed(a, sizes.depth, sizes.rows, sizeof(In), run.memory, scratch.left_pitch, run.stream);
  const Matrix right = placed(b, kByColumns ? sizes.depth : sizes.columns, kByColumns ? sizes.columns : sizes.depth,
                              sizeof(In), run.memory + scratch.left, scratch.right_pitch, run.stream);
  auto* const out = static_cast<Out*>(run.out);
  auto* const sums = reinterpret_cast<Sum*>(run.memory + scratch.left + scratch.right);
  const ampere::Operands<In, Sum, Out> operands = {static_cast<const In*>(left.first),
                                                   static_cast<const In*>(right.first),
                                                   out,
                                                   sums,
                                                   left.pitch,
                                                   right.pitch,
                                                   scratch.sums_pitch,
                                                   is_aligned(out, sizes.columns * sizeof(Out)),
                                                   0,
                                                   0};
  const ampere::Plan plan = run.prepared.plan;
  const int error = ampere::with_tile(plan.size, [&](auto tile) {
    return launch<decltype(tile), kByColumns>(operands, sizes, plan.splits, run.stream);
  });
  if (error != cudaSuccess || plan.splits == 1) {
    return error;
  }
  const dim3 blocks(static_cast<unsigned>(parts(sizes.columns, kAddThreads)),
                    static_cast<unsigned>(std::min<std::int64_t>(sizes.rows, 65535)));
  add_splits<<<blocks, kAddThreads, 0, run.stream>>>(out, sums, plan.splits, sizes.rows, sizes.columns,
                                                     scratch.sums_pitch, sizes.rows * scratch.sums_pitch);
  return cudaGetLastError();
}

template <typename In, typename Sum, typename Out>
int run_in_order(const Run& run, const void* a, const void* b) {
  return run.sizes.by_columns ? run_as<In, Sum, Out, true>(run, a, b) : run_as<In, Sum, Out, false>(run, a, b);
}
[% endraw %]

}  // namespace

std::int64_t scratch_bytes(Type type, const void* out, const void* a, const void* b, const Sizes& sizes) {
[% block scratch %]
[% endblock %]
  const ampere::Scratch scratch = ampere::prepare(size_of(type), a, b, sizes).scratch;
  return scratch.left + scratch.right + scratch.sums;
}

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch, void* stream) {
  if (sizes.rows == 0 || sizes.columns == 0) {
    return cudaSuccess;
  }
[% block faster %]
[% endblock %]
  const Run product = {sizes, ampere::prepare(size_of(type), a, b, sizes), out, static_cast<unsigned char*>(scratch),
                       static_cast<cudaStream_t>(stream)};
  switch (type) {
    case Type::float16:
      return run_in_order<__half, float, __half>(product, a, b);
    case Type::narrow_float16:
      return run_in_order<__half, __half, __half>(product, a, b);
    case Type::bfloat16:
      return run_in_order<__nv_bfloat16, float, __nv_bfloat16>(product, a, b);
    case Type::int8:
      return run_in_order<signed char, int, int>(product, a, b);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
