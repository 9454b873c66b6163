// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

// Of x, scales and out; sums are float32.
enum class Type { float16, bfloat16 };

struct Sizes {
  std::int64_t rows;     // of x and out
  std::int64_t columns;  // of out: rows of weight and scales
  std::int64_t depth;    // columns of x: twice those of weight
  std::int64_t group;    // of these columns have one scale: a multiple of 32 that divides the depth
};

// out[r, c] = sum over k of x[r, k] * weight[c, k] * scales[c, k / group].
//
// Weights are integers from -8 to 7 in two's complement, two in a byte, the first one in the low half. All is dense,
// row by row; x and weight begin at a multiple of 16 bytes. `stream` is a cudaStream_t, and null on the CPU. Returns a
// cudaError_t: 0 is success.
int run(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes, void* stream);
[% if cuda %]

// On a GPU so many rows are multiplied while the weights are read. More rows have a kernel of their own on Hopper GPUs,
// which rounds scaled weights to the type of x; on others a product of wide weights is faster than `run`.
constexpr std::int64_t kFewRows = 64;
bool is_faster_wide(const Sizes& sizes);

// wide[c, k] = weight[c, k] * scales[c, k / group], rounded to the type. `wide` begins at a multiple of 16 bytes.
int widen(Type type, void* wide, const void* weight, const void* scales, const Sizes& sizes, void* stream);
[% endif %]

}  // namespace [[ module ]]_impl
