[% if cuda %]
// Attention on a Hopper GPU, with instructions that no other has.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// No cudaError_t.
constexpr int kNotForHopper = -1;

// As `forward` and `backward`, but they do nothing and return kNotForHopper if the GPU is another one; for float32; for
// a width but 64, 128 and 256 (gradients: but 128); without keys; and if the Tensor Memory Accelerator cannot read a
// tensor, whose address, rows, heads and batches must lie at multiples of 16 bytes. Gradients of queries are added up
// by many blocks, in an order that no two runs share, so they are none that must be repeatable.
int forward_on_hopper(Type type, const Forward& tensors, const Sizes& sizes, void* stream);
int backward_on_hopper(Type type, const Backward& tensors, const Sizes& sizes, void* stream);

int forward_varlen_on_hopper(Type type, const Forward& tensors, const Sizes& sizes, const Sequences& sequences,
                             void* stream);
int backward_varlen_on_hopper(Type type, const Backward& tensors, const Sizes& sizes, const Sequences& sequences,
                              void* stream);

// How many float32 they need.
std::int64_t forward_scratch_on_hopper();
std::int64_t backward_scratch_on_hopper(Type type, const Sizes& sizes);
std::int64_t backward_varlen_scratch_on_hopper(Type type, const Sizes& sizes, const Sequences& sequences);

}  // namespace [[ module ]]_impl
[% endif %]
