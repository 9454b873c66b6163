[% if cuda %]
// Attention of few queries, as a model computes it for each new token.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// No cudaError_t.
constexpr int kManyQueries = -1;

// As `forward`, but it does nothing and returns kManyQueries if more than 32 rows of q share a head of k, or without
// keys; for float32; for a width but 64, 128 and 256; and unless the address, rows, heads and batches of q, k and v lie
// at multiples of 16 bytes. Two runs give the same bits.
int forward_of_few(Type type, const Forward& tensors, const Sizes& sizes, void* stream);

// How many float32 it needs.
std::int64_t forward_scratch_of_few(Type type, const Sizes& sizes);

}  // namespace [[ module ]]_impl
[% endif %]
