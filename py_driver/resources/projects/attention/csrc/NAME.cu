[% if cuda %]
#include "[[ module ]].h"

#include <algorithm>

#include "few_queries.h"
#include "hopper.h"
#include "fallback.h"

namespace [[ module ]]_impl {
[% raw %]

// Which kernel computes what. nvcc before 12.0 does not compile those for Hopper GPUs.
#if __CUDACC_VER_MAJOR__ < 12
int forward_on_hopper(Type, const Forward&, const Sizes&, void*) { return kNotForHopper; }
int backward_on_hopper(Type, const Backward&, const Sizes&, void*) { return kNotForHopper; }
int forward_varlen_on_hopper(Type, const Forward&, const Sizes&, const Sequences&, void*) { return kNotForHopper; }
int backward_varlen_on_hopper(Type, const Backward&, const Sizes&, const Sequences&, void*) { return kNotForHopper; }
std::int64_t forward_scratch_on_hopper() { return 0; }
std::int64_t backward_scratch_on_hopper(Type, const Sizes&) { return 0; }
std::int64_t backward_varlen_scratch_on_hopper(Type, const Sizes&, const Sequences&) { return 0; }
#endif

int forward(Type type, const Forward& tensors, const Sizes& sizes, const Sequences* sequences, void* stream) {
  if (sequences != nullptr) {
    const int result = forward_varlen_on_hopper(type, tensors, sizes, *sequences, stream);
    return result != kNotForHopper ? result : fallback_forward(type, tensors, sizes, sequences, stream);
  }
  // Hopper's kernel has a block for each head of q. It is the faster one for a few queries of so many heads that most
  // of the 132 multiprocessors have work, if no two share keys, which it would read again.
  constexpr std::int64_t kManyHeads = 96;
  const bool is_for_hopper =
      sizes.queries > 1 && sizes.heads == sizes.kv_heads && sizes.batch * sizes.heads >= kManyHeads;
  if (!is_for_hopper) {
    if (const int result = forward_of_few(type, tensors, sizes, stream); result != kManyQueries) {
      return result;
    }
  }
  if (const int result = forward_on_hopper(type, tensors, sizes, stream); result != kNotForHopper) {
    return result;
  }
  if (is_for_hopper) {
    if (const int result = forward_of_few(type, tensors, sizes, stream); result != kManyQueries) {
      return result;
    }
  }
  return fallback_forward(type, tensors, sizes, sequences, stream);
}

int backward(Type type, const Backward& tensors, const Sizes& sizes, const Sequences* sequences, void* stream) {
  const int result = sequences != nullptr ? backward_varlen_on_hopper(type, tensors, sizes, *sequences, stream)
                                          : backward_on_hopper(type, tensors, sizes, stream);
  return result != kNotForHopper ? result : fallback_backward(type, tensors, sizes, sequences, stream);
}

std::int64_t forward_scratch(Type type, const Sizes& sizes, const Sequences* sequences) {
  return std::max(sequences != nullptr ? 0 : forward_scratch_of_few(type, sizes), forward_scratch_on_hopper());
}

std::int64_t backward_scratch(Type type, const Sizes& sizes, const Sequences* sequences) {
  return std::max(fallback_backward_scratch(sizes), sequences != nullptr
                                                      ? backward_varlen_scratch_on_hopper(type, sizes, *sequences)
                                                      : backward_scratch_on_hopper(type, sizes));
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
