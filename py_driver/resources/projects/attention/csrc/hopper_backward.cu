[% if cuda %]
#include "hopper_backward.h"

#include <algorithm>

#include "hopper.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// Rows of queries in all steps of all heads.
std::int64_t padded(const Sizes& sizes) {
  return (sizes.queries + kQueries - 1) / kQueries * kQueries * sizes.batch * sizes.heads;
}

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
  const auto function = differentiate_on_hopper<T, kCausal>;
  if (const cudaError_t error =
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory))) {
    return error;
  }
  const std::int64_t rows = padded(sizes);
  const std::int64_t pairs = sizes.batch * sizes.kv_heads;
  if (const cudaError_t error = cudaMemsetAsync(tensors.scratch, 0, rows * kWidth * sizeof(float), stream)) {
    return error;
  }
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
                           sizes.scale};
  prepare<T><<<static_cast<unsigned>(rows / 8), 256, 0, stream>>>(problem);
  function<<<static_cast<unsigned>((sizes.keys + kKeys - 1) / kKeys * pairs), kThreads, sizeof(Memory), stream>>>(
      q, grad, k, v, problem);
  finish<T><<<static_cast<unsigned>(rows / kQueries), 256, 0, stream>>>(problem);
  return cudaGetLastError();
}

}  // namespace

int backward_on_hopper(Type type, const Backward& tensors, const Sizes& sizes, void* stream) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (tensors.repeatable || Device().major != 9 || type == Type::float32 || sizes.width != kWidth || sizes.keys == 0 ||
      !has_pairs(tensors.out) || !has_pairs(tensors.grad_q) || !has_pairs(tensors.grad_k) ||
      !has_pairs(tensors.grad_v) || std::max({sizes.queries, sizes.keys, sizes.batch * sizes.heads}) > kMost ||
      padded(sizes) > kMost) {
    return kNotForHopper;
  }
  const auto on = static_cast<cudaStream_t>(stream);
  if (type == Type::float16) {
    return sizes.causal ? run<__half, true>(type, tensors, sizes, on) : run<__half, false>(type, tensors, sizes, on);
  }
  return sizes.causal ? run<__nv_bfloat16, true>(type, tensors, sizes, on)
                      : run<__nv_bfloat16, false>(type, tensors, sizes, on);
}

std::int64_t backward_scratch_on_hopper(Type type, const Sizes& sizes) {
  return type == Type::float32 || sizes.width != kWidth ? 0 : padded(sizes) * (kWidth + 2);
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
