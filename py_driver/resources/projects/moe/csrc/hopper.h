[% if cuda %]
// The products on a Hopper GPU, with instructions that no other has.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// No cudaError_t.
constexpr int kNotForHopper = -1;

// The bytes of device memory that `multiply_on_hopper` needs for itself, 0 where it does nothing.
std::int64_t scratch_on_hopper(const Product& tensors);

// As `multiply`, but it does nothing and returns kNotForHopper if the GPU is another one, for few rows of each expert,
// and for weights whose lines do not begin at multiples of 16 bytes.
int multiply_on_hopper(Type type, const Product& tensors, void* scratch, void* stream);

}  // namespace [[ module ]]_impl
[% endif %]
