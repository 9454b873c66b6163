[% if cuda %]
#include "hopper_forward.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

template <typename P, bool kCausal>
int run(Type type, const Forward& tensors, const Sizes& sizes, const Sequences& sequences, int processors,
        cudaStream_t stream) {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  if (!encode_packed(q, type, tensors.q, sizes.heads, sizes.queries, sizes.width, P::kQueries) ||
      !encode_packed(k, type, tensors.k, sizes.kv_heads, sizes.keys, sizes.width, P::kKeys) ||
      !encode_packed(v, type, tensors.v, sizes.kv_heads, sizes.keys, sizes.width, P::kKeys)) {
    return kNotForHopper;
  }
  const std::int64_t tiles = tiles_of(sizes.queries, sequences.count, P::kQueries) * sizes.heads;
  if (tiles > 1 << 30) {
    return kNotForHopper;
  }
  const Problem problem = {tensors.out,
                           tensors.lse,
                           reinterpret_cast<int*>(tensors.scratch),
                           static_cast<int>(sizes.heads),
                           static_cast<int>(sizes.heads / sizes.kv_heads),
                           static_cast<int>(sizes.queries),
                           static_cast<int>(sizes.keys),
                           static_cast<int>(sizes.heads),
                           1,  // each sequence has its own
                           static_cast<int>(tiles),
                           sizes.scale,
                           sequences};
  return launch<P, PackedPlace<P, kCausal>>(q, k, v, problem, processors, stream);
}

}  // namespace

int forward_varlen_on_hopper(Type type, const Forward& tensors, const Sizes& sizes, const Sequences& sequences,
                             void* stream) {
  const Device device;
  return with_plan(type, tensors, sizes, device, [&](auto plan) {
    const auto function = sizes.causal ? run<decltype(plan), true> : run<decltype(plan), false>;
    return function(type, tensors, sizes, sequences, device.processors, static_cast<cudaStream_t>(stream));
  });
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
