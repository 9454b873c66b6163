// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

// out[i] = 2 * in[i]; both are dense, with `count` elements. `stream` is a cudaStream_t, and null on the CPU. Returns a
// cudaError_t: 0 is success.
int run(float* out, const float* in, std::int64_t count, void* stream);

}  // namespace [[ module ]]_impl
