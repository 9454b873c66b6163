[% if cuda %]
// The product on a GPU of capability 10.0, with instructions that few others have.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// No cudaError_t.
constexpr int kNotForBlackwell = -1;

// As `run`, but it does nothing and returns kNotForBlackwell if the GPU is another one, for int8, for sums of float16,
// and for matrices that TMA cannot read, whose addresses or rows are no multiples of 16 bytes.
int run_on_blackwell(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* stream);

}  // namespace [[ module ]]_impl
[% endif %]
