[% if cuda %]
#include "hopper_backward.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

int steps_of(const Sizes& sizes) { return static_cast<int>((sizes.queries + kQueries - 1) / kQueries); }

std::int64_t all_steps_of(const Sizes& sizes) { return steps_of(sizes) * sizes.batch * sizes.heads; }

template <typename T, bool kCausal>
int run(Type type, const Backward& tensors, const Sizes& sizes, cudaStream_t stream) {
  CUtensorMap q;
  CUtensorMap grad;
  CUtensorMap k;
  CUtensorMap v;
  if (!encode(q, type, tensors.q, sizes.batch, sizes.heads, sizes.queries, kWidth, kQueries) ||
      !encode(grad, type, tensors.grad_out, sizes.batch, sizes.heads, sizes.queries, kWidth, kQueries) ||
      !encode(k, type, tensors.k, sizes.batch, sizes.kv_heads, sizes.keys, kWidth, kKeys) ||
      !encode(v, type, tensors.v, sizes.batch, sizes.kv_heads, sizes.keys, kWidth, kKeys)) {
    return kNotForHopper;
  }
  const std::int64_t steps = all_steps_of(sizes);
  const std::int64_t rows = steps * kQueries;
  const std::int64_t pairs = sizes.batch * sizes.kv_heads;
  const Problem problem = {tensors,
                           tensors.scratch,
                           tensors.scratch + rows * kWidth,
                           tensors.scratch + rows * (kWidth + 1),
                           static_cast<int>(sizes.batch),
                           static_cast<int>(sizes.heads),
                           static_cast<int>(sizes.kv_heads),
                           static_cast<int>(sizes.queries),
                           static_cast<int>(sizes.keys),
                           kCausal ? side_by_side(pairs, 4 * sizes.queries * kWidth * sizes.heads / sizes.kv_heads) : 1,
                           steps_of(sizes),
                           sizes.scale,
                           {}};
  const std::int64_t blocks = (sizes.keys + kKeys - 1) / kKeys * pairs;
  return launch<T, Place<kCausal>, Step>(q, grad, k, v, problem, steps, blocks, stream);
}

}  // namespace

int backward_on_hopper(Type type, const Backward& tensors, const Sizes& sizes, void* stream) {
  if (!is_for_hopper(type, tensors, sizes, all_steps_of(sizes))) {
    return kNotForHopper;
  }
  return with_half(type, [&](auto zero) {
    const auto function = sizes.causal ? run<decltype(zero), true> : run<decltype(zero), false>;
    return function(type, tensors, sizes, static_cast<cudaStream_t>(stream));
  });
}

std::int64_t backward_scratch_on_hopper(Type type, const Sizes& sizes) {
  return type == Type::float32 || sizes.width != kWidth ? 0 : all_steps_of(sizes) * kQueries * (kWidth + 2);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
