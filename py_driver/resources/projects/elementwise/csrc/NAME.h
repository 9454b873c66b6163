// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

constexpr int kMaxDims = 8;

// How a tensor lies in memory, in elements.
struct Layout {
  int dims;
  std::int64_t sizes[kMaxDims];
  std::int64_t strides[kMaxDims];
};

// out[i] = in[i] * sigmoid(in[i]).
//
// `out` is dense; so is `in` where `layout` is null. Both have `count` elements of `type`. `stream` is a cudaStream_t,
// and null on the CPU. Returns a cudaError_t: 0 is success.
int run(Type type, void* out, const void* in, const Layout* layout, std::int64_t count, void* stream);

}  // namespace [[ module ]]_impl
