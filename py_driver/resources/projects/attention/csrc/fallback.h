[% if cuda %]
// Attention on every GPU, for every type and width: simple and slow.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// As `forward` and `backward`, and as those of sequences if there are any. Two runs give the same bits.
int fallback_forward(Type type, const Forward& tensors, const Sizes& sizes, const Sequences* sequences, void* stream);
int fallback_backward(Type type, const Backward& tensors, const Sizes& sizes, const Sequences* sequences,
                      void* stream);

// How many float32 the second one needs.
std::int64_t fallback_backward_scratch(const Sizes& sizes);

}  // namespace [[ module ]]_impl
[% endif %]
