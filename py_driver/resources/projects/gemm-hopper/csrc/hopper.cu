[% if cuda %]
#include "hopper.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hopper_few.h"
#include "hopper_kernel.h"
#include "hopper_memory.h"
#include "hopper_plan.h"
#include "hopper_split.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

std::int64_t size_of(Type type) { return type == Type::int8 ? 1 : 2; }

bool fits(Type type, const void* out, const Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  // Below that the other kernel is as fast, since it needs no copies.
  constexpr std::int64_t kLeast = std::int64_t{1} << 18;
  return reinterpret_cast<std::uintptr_t>(out) % 4 == 0 && type != Type::narrow_float16 &&
         (type != Type::int8 || sizes.by_columns) && sizes.depth > 0 &&
         std::max({sizes.rows, sizes.columns, sizes.depth}) <= kMost &&
         (sizes.rows * sizes.columns >= kLeast / sizes.depth);
}

struct Run {
  Sizes sizes;
  Scratch scratch;
  void* out;
  unsigned char* memory;
  int splits;
  int processors;
  cudaStream_t stream;
};

template <typename T, bool kByColumns, typename Out, class Shape>
int launch(const Run& run, const Matrix& a, const Matrix& b, const Output& output, std::int64_t pitch) {
  CUtensorMap left;
  CUtensorMap right;
  CUtensorMap map = {};
  const std::int64_t rows = run.splits > 1 ? run.splits * static_cast<std::int64_t>(output.split_rows) : output.rows;
  if (!encode<T>(left, a, kRows / Shape::kAcross) ||
      !encode<T>(right, b, kByColumns ? Shape::kColumns / Shape::kDown : kBytes / static_cast<int>(sizeof(T))) ||
      (output.by_tma && !encode<Out>(map, {output.first, output.columns, rows, pitch}, kPartRows))) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_on_hopper<T, kByColumns, Out, Shape>;
  constexpr int kMemory = sizeof(Memory<Shape>);
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const Jobs jobs = {static_cast<int>(parts(run.sizes.rows, Shape::kDown * kRows)),
                     static_cast<int>(parts(run.sizes.columns, Shape::kAcross * Shape::kColumns)),
                     static_cast<int>(parts(run.sizes.depth * sizeof(T), kBytes)), run.splits};
  const std::int64_t all = static_cast<std::int64_t>(jobs.down) * jobs.across * jobs.splits;
  const auto clusters = std::min<std::int64_t>(std::max(run.processors / Shape::kBlocks, 1), all);
  function<<<static_cast<unsigned>(clusters * Shape::kBlocks), kThreads, kMemory, run.stream>>>(left, right, map,
                                                                                                output, jobs);
  return cudaGetLastError();
}

template <typename T, typename Out, bool kByColumns>
int run_as(const Run& run, const void* a, const void* b, const Plan& plan) {
  using Sum = SumOf<T>;
  const Sizes& sizes = run.sizes;
  const Scratch& scratch = run.scratch;
  const Matrix left = placed(a, sizes.depth, sizes.rows, sizeof(T), run.memory, scratch.left_pitch, run.stream);
  const Matrix right = placed(b, kByColumns ? sizes.depth : sizes.columns, kByColumns ? sizes.columns : sizes.depth,
                              sizeof(T), run.memory + scratch.left, scratch.right_pitch, run.stream);
  if (const cudaError_t error = cudaGetLastError()) {
    return error;
  }
  const auto with = [&](auto shape) -> int {
    using Picked = decltype(shape);
    Output output = {run.out, static_cast<int>(sizes.rows), static_cast<int>(sizes.columns), 0,
                     is_aligned(run.out, sizes.columns * sizeof(Out))};
    if (run.splits == 1) {
      return launch<T, kByColumns, Out, Picked>(run, left, right, output, sizes.columns);
    }
    output.first = run.memory + scratch.left + scratch.right;
    output.split_rows = static_cast<int>(scratch.split_rows);
    output.by_tma = true;
    if (const int error = launch<T, kByColumns, Sum, Picked>(run, left, right, output, scratch.sums_pitch)) {
      return error;
    }
    const dim3 blocks(static_cast<unsigned>(parts(sizes.columns, kAddThreads)),
                      static_cast<unsigned>(std::min<std::int64_t>(sizes.rows, 65535)));
    add_splits<<<blocks, kAddThreads, 0, run.stream>>>(static_cast<Out*>(run.out),
                                                       static_cast<const Sum*>(output.first), run.splits, sizes.rows,
                                                       sizes.columns, scratch.sums_pitch,
                                                       scratch.split_rows * scratch.sums_pitch);
    return cudaGetLastError();
  };
  switch (plan.columns) {
    case Columns::few:
      return run_few<T, FewProduct<T, kByColumns>, Out>({}, left, right, sizes, run.out, run.splits, run.stream);
    case Columns::wide:
      return with(Wide());
    case Columns::split:
      return run_split<T, kByColumns, Out>(left, right, sizes, run.out, plan, run.stream);
    case Columns::large:
      return with(Large());
    case Columns::broad:
      return with(Broad());
    case Columns::middle:
      return with(Middle());
    case Columns::narrow:
      return with(Narrow());
    default:
      return with(Beside());
  }
}

int run_planned(const Plan& plan, Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch,
                int processors, void* stream) {
  const Run run = {sizes,
                   scratch_for(size_of(type), a, b, sizes, plan),
                   out,
                   static_cast<unsigned char*>(scratch),
                   plan.splits,
                   processors,
                   static_cast<cudaStream_t>(stream)};
  switch (type) {
    case Type::float16:
      return sizes.by_columns ? run_as<__half, __half, true>(run, a, b, plan)
                              : run_as<__half, __half, false>(run, a, b, plan);
    case Type::bfloat16:
      return sizes.by_columns ? run_as<__nv_bfloat16, __nv_bfloat16, true>(run, a, b, plan)
                              : run_as<__nv_bfloat16, __nv_bfloat16, false>(run, a, b, plan);
    default:
      return run_as<signed char, int, true>(run, a, b, plan);
  }
}

}  // namespace

std::int64_t scratch_on_hopper(Type type, const void* out, const void* a, const void* b, const Sizes& sizes) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(type, out, sizes)) {
    return kNotForHopper;
  }
  const Scratch scratch = scratch_for(size_of(type), a, b, sizes, plan_for(size_of(type), sizes, processors, true));
  return scratch.left + scratch.right + scratch.sums;
}

int run_on_hopper(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch, void* stream) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(type, out, sizes)) {
    return kNotForHopper;
  }
  const Plan plan = plan_for(size_of(type), sizes, processors, true);
  return run_planned(plan, type, out, a, b, sizes, scratch, processors, stream);
}
[% endraw %]
}  // namespace [[ module ]]_impl
[% endif %]
