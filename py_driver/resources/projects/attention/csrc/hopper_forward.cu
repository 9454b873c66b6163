[% if cuda %]
#include "hopper_forward.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

template <typename P, bool kCausal>
int run(Type type, const Forward& tensors, const Sizes& sizes, int processors, cudaStream_t stream) {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  if (!encode(q, type, tensors.q, sizes.batch, sizes.heads, sizes.queries, sizes.width, P::kQueries) ||
      !encode(k, type, tensors.k, sizes.batch, sizes.kv_heads, sizes.keys, sizes.width, P::kKeys) ||
      !encode(v, type, tensors.v, sizes.batch, sizes.kv_heads, sizes.keys, sizes.width, P::kKeys)) {
    return kNotForHopper;
  }
  const std::int64_t pairs = sizes.batch * sizes.heads;
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  const std::int64_t tiles = (sizes.queries + P::kQueries - 1) / P::kQueries * pairs;
  if (tiles > 1 << 30) {
    return kNotForHopper;
  }
  const Problem problem = {tensors.out,
                           tensors.lse,
                           reinterpret_cast<int*>(tensors.scratch),
                           static_cast<int>(sizes.heads),
                           static_cast<int>(group),
                           static_cast<int>(sizes.queries),
                           static_cast<int>(sizes.keys),
                           static_cast<int>(pairs),
                           kCausal ? side_by_side(pairs, 4 * sizes.keys * sizes.width / group) : 1,
                           static_cast<int>(tiles),
                           sizes.scale,
                           {}};
  return launch<P, Place<P, kCausal>>(q, k, v, problem, processors, stream);
}

}  // namespace

int forward_on_hopper(Type type, const Forward& tensors, const Sizes& sizes, void* stream) {
  const Device device;
  return with_plan(type, tensors, sizes, device, [&](auto plan) {
    const auto function = sizes.causal ? run<decltype(plan), true> : run<decltype(plan), false>;
    return function(type, tensors, sizes, device.processors, static_cast<cudaStream_t>(stream));
  });
}

std::int64_t forward_scratch_on_hopper() { return 1; }
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
