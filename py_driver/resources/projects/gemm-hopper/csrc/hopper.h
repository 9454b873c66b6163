[% if cuda %]
// The product on a Hopper GPU, with instructions that no other has.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// No cudaError_t.
constexpr int kNotForHopper = -1;

// The bytes of device memory that `run_on_hopper` needs as `scratch`, kNotForHopper where it does nothing.
std::int64_t scratch_on_hopper(Type type, const void* out, const void* a, const void* b, const Sizes& sizes);

// As `run`, but it does nothing and returns kNotForHopper if the GPU is another one, for few products, for int8 unless
// b lies column by column, and for sums of float16.
int run_on_hopper(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch, void* stream);

}  // namespace [[ module ]]_impl
[% endif %]
