[% if cuda %]
#include "hopper_backward.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

std::int64_t steps_of(const Sizes& sizes, const Sequences& sequences) {
  return tiles_of(sizes.queries, sequences.count, kQueries);
}

template <typename T, bool kCausal>
int run(Type type, const Backward& tensors, const Sizes& sizes, const Sequences& sequences, cudaStream_t stream) {
  CUtensorMap q;
  CUtensorMap grad;
  CUtensorMap k;
  CUtensorMap v;
  if (!encode_packed(q, type, tensors.q, sizes.heads, sizes.queries, kWidth, kQueries) ||
      !encode_packed(grad, type, tensors.grad_out, sizes.heads, sizes.queries, kWidth, kQueries) ||
      !encode_packed(k, type, tensors.k, sizes.kv_heads, sizes.keys, kWidth, kKeys) ||
      !encode_packed(v, type, tensors.v, sizes.kv_heads, sizes.keys, kWidth, kKeys)) {
    return kNotForHopper;
  }
  const std::int64_t steps = steps_of(sizes, sequences);
  const std::int64_t rows = steps * sizes.heads * kQueries;
  const Problem problem = {tensors,
                           tensors.scratch,
                           tensors.scratch + rows * kWidth,
                           tensors.scratch + rows * (kWidth + 1),
                           1,
                           static_cast<int>(sizes.heads),
                           static_cast<int>(sizes.kv_heads),
                           static_cast<int>(sizes.queries),
                           static_cast<int>(sizes.keys),
                           1,  // each sequence has its own
                           static_cast<int>(steps),
                           sizes.scale,
                           sequences};
  const std::int64_t blocks = tiles_of(sizes.keys, sequences.count, kKeys) * sizes.kv_heads;
  return launch<T, PackedPlace<kCausal>, PackedStep>(q, grad, k, v, problem, steps * sizes.heads, blocks, stream);
}

}  // namespace

int backward_varlen_on_hopper(Type type, const Backward& tensors, const Sizes& sizes, const Sequences& sequences,
                              void* stream) {
  if (!is_for_hopper(type, tensors, sizes, steps_of(sizes, sequences) * sizes.heads)) {
    return kNotForHopper;
  }
  return with_half(type, [&](auto zero) {
    const auto function = sizes.causal ? run<decltype(zero), true> : run<decltype(zero), false>;
    return function(type, tensors, sizes, sequences, static_cast<cudaStream_t>(stream));
  });
}

std::int64_t backward_varlen_scratch_on_hopper(Type type, const Sizes& sizes, const Sequences& sequences) {
  const bool is_fast = type != Type::float32 && sizes.width == kWidth;
  return is_fast ? steps_of(sizes, sequences) * sizes.heads * kQueries * (kWidth + 2) : 0;
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
