[% if cuda %]
#include "hopper.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "hopper_few.h"
#include "hopper_kernel.h"
#include "hopper_memory.h"
#include "hopper_plan.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

struct Run {
  Sizes sizes;
  Scales scales;
  Scratch scratch;
  void* out;
  unsigned char* memory;
  int splits;
  int processors;
  cudaStream_t stream;
};

bool fits(const Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  // Below that the other kernel is as fast, since it needs no copies.
  constexpr std::int64_t kLeast = std::int64_t{1} << 18;
  return sizes.depth > 0 && std::max({sizes.rows, sizes.columns, sizes.depth}) <= kMost &&
         sizes.rows * sizes.columns >= kLeast / sizes.depth;
}

template <bool kFast, typename Out, class Shape>
int launch(const Run& run, const Matrix& a, const Matrix& b, const Output& output, std::int64_t pitch) {
  CUtensorMap left;
  CUtensorMap right;
  CUtensorMap map = {};
  const std::int64_t rows = run.splits > 1 ? run.splits * static_cast<std::int64_t>(output.split_rows) : output.rows;
  if (!encode<std::uint8_t>(left, a, kRows / Shape::kAcross) ||
      !encode<std::uint8_t>(right, b, Shape::kColumns / Shape::kDown) ||
      (output.by_tma && !encode<Out>(map, {output.first, output.columns, rows, pitch}, kPartRows))) {
    return cudaErrorInvalidValue;
  }
  const auto function = multiply_on_hopper<kFast, Out, Shape>;
  constexpr int kMemory = sizeof(ScaledMemory<Shape>);
  static_assert(kMemory <= kShared, "a block cannot have so much");
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory)) {
    return error;
  }
  const Jobs jobs = {static_cast<int>(parts(run.sizes.rows, Shape::kDown * kRows)),
                     static_cast<int>(parts(run.sizes.columns, Shape::kAcross * Shape::kColumns)),
                     static_cast<int>(parts(run.sizes.depth, kBytes)), run.splits};
  const std::int64_t all = static_cast<std::int64_t>(jobs.down) * jobs.across * jobs.splits;
  const auto clusters = std::min<std::int64_t>(std::max(run.processors / Shape::kBlocks, 1), all);
  const auto blocks = static_cast<unsigned>(clusters * Shape::kBlocks);
  function<<<blocks, kThreads, kMemory, run.stream>>>(left, right, map, output, jobs, run.scales);
  return cudaGetLastError();
}

template <bool kFast, typename Out>
int run_as(const Run& run, const void* a, const void* b, Columns columns) {
  const Sizes& sizes = run.sizes;
  const Scratch& scratch = run.scratch;
  const Matrix left = placed(a, sizes.depth, sizes.rows, 1, run.memory, scratch.left_pitch, run.stream);
  const Matrix right =
      placed(b, sizes.depth, sizes.columns, 1, run.memory + scratch.left, scratch.right_pitch, run.stream);
  const auto with = [&](auto shape) -> int {
    using Picked = decltype(shape);
    using Scaled = Shape<Picked::kColumns, Picked::kDown, Picked::kAcross, kScaleBytes>;
    Output output = {run.out, static_cast<int>(sizes.rows), static_cast<int>(sizes.columns), 0,
                     is_aligned(run.out, sizes.columns * static_cast<std::int64_t>(sizeof(Out)))};
    if (run.splits == 1) {
      return launch<kFast, Out, Scaled>(run, left, right, output, sizes.columns);
    }
    output.first = run.memory + scratch.left + scratch.right;
    output.split_rows = static_cast<int>(scratch.split_rows);
    output.by_tma = true;
    if (const int error = launch<kFast, float, Scaled>(run, left, right, output, scratch.sums_pitch)) {
      return error;
    }
    const dim3 blocks(static_cast<unsigned>(parts(sizes.columns, kAddThreads)),
                      static_cast<unsigned>(std::min<std::int64_t>(sizes.rows, 65535)));
    add_splits<<<blocks, kAddThreads, 0, run.stream>>>(
        static_cast<Out*>(run.out), static_cast<const float*>(output.first), run.splits, sizes.rows, sizes.columns,
        scratch.sums_pitch, scratch.split_rows * scratch.sums_pitch);
    return cudaGetLastError();
  };
  switch (columns) {
    case Columns::few:
      return run_few<std::uint8_t, FewProduct<kFast>, Out>({run.scales}, left, right, sizes, run.out, run.splits,
                                                           run.stream);
    case Columns::wide:
      return with(Wide());
    case Columns::middle:
      return with(Middle());
    case Columns::narrow:
      return with(Narrow());
    default:
      return with(Beside());
  }
}

}  // namespace

std::int64_t scratch_on_hopper(const void* a, const void* b, const Sizes& sizes) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(sizes)) {
    return 0;
  }
  const Scratch scratch = scratch_for(1, a, b, sizes, plan_for(1, sizes, processors, false));
  return scratch.left + scratch.right + scratch.sums;
}

int run_on_hopper(Type type, void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales,
                  bool fast, void* scratch, void* stream) {
  const int processors = hopper_processors();
  if (processors == 0 || !fits(sizes) || reinterpret_cast<std::uintptr_t>(out) % 4 != 0) {
    return kNotForHopper;
  }
  const Plan plan = plan_for(1, sizes, processors, false);
  const Run run = {sizes,
                   scales,
                   scratch_for(1, a, b, sizes, plan),
                   out,
                   static_cast<unsigned char*>(scratch),
                   plan.splits,
                   processors,
                   static_cast<cudaStream_t>(stream)};
  const auto as = [&](auto value) {
    using Out = decltype(value);
    return fast ? run_as<true, Out>(run, a, b, plan.columns) : run_as<false, Out>(run, a, b, plan.columns);
  };
  switch (type) {
    case Type::float16:
      return as(__half());
    case Type::bfloat16:
      return as(__nv_bfloat16());
    default:
      return as(float());
  }
}
[% endraw %]
}  // namespace [[ module ]]_impl
[% endif %]
