// What the binding calls. No type of torch or CUDA is named here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, int32, int64 };

// out[i] = in[0] + ... + in[i]; both are dense, with `count` elements.
//
// Without `memory` it only writes to `bytes` how much of it is needed. `stream` is a cudaStream_t. Returns a
// cudaError_t: 0 is success.
int run(Type type, void* memory, std::size_t* bytes, void* out, const void* in, std::int64_t count, void* stream);

}  // namespace [[ module ]]_impl
