[% if cuda %]
// The product on a Hopper GPU, with instructions that no other has.
#pragma once

#include "[[ module ]].h"

namespace [[ module ]]_impl {

// Whether `run_on_hopper` multiplies matrices of these sizes on the current GPU.
bool is_for_hopper(const Sizes& sizes);

// As `run`, but the weights are rounded to the type of x before they are multiplied, as `widen` does it.
int run_on_hopper(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
                  void* stream);

}  // namespace [[ module ]]_impl
[% endif %]
