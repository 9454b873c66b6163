// The product on a Hopper GPU, with instructions that no other has.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// No cudaError_t.
constexpr int kNotForHopper = -1;

// As `run`, but it does nothing and returns kNotForHopper if the GPU is another one; if the Tensor Memory Accelerator
// cannot read the matrices, whose addresses and rows must be multiples of 16 bytes; if out has an odd number of
// columns; for int8 unless b lies column by column; and for sums of float16.
int run_on_hopper(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* stream);

}  // namespace [[ module ]]_impl
