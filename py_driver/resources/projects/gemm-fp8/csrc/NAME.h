// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

// Of the output. `a` and `b` are float8_e4m3fn: a sign, four bits of exponent, three of fraction, no infinity.
enum class Type { float16, bfloat16, float32 };

struct Sizes {
  std::int64_t rows;     // of a and out
  std::int64_t columns;  // of b and out
  std::int64_t depth;    // columns of a, rows of b

  // b lies column by column: tensor cores read eight bits in no other order.
  static constexpr bool by_columns = true;
};

// How much of the depth, and of the columns of b, has one scale in a product of blocks.
constexpr int kBlock = 128;

// What a and b are multiplied by. A step is 0 where there is one scale for all.
struct Scales {
  const float* a;
  const float* b;
  std::int64_t a_row;     // from a row of a to the next
  std::int64_t a_step;    // from a block of the depth to the next
  std::int64_t b_step;    // the same of b
  std::int64_t b_column;  // from a column of b to the next; in a product of blocks, from kBlock columns
  bool blocks;
};

[% if cuda %]
// The bytes of device memory that `run` needs as `scratch` for these matrices: for copies of what the Tensor Memory
// Accelerator cannot read, and for the sums of parts of the depth. A CPU needs none.
std::int64_t scratch_bytes(const void* a, const void* b, const Sizes& sizes);

[% endif %]
// out = (a * scales) @ (b * scales); all are dense, b column by column, the others row by row. Sums are float32, unless
// they are `fast`: then a GPU may keep them in its tensor cores, which have some 14 bits for them. A product of blocks
// cannot be fast. `stream` is a cudaStream_t, and null on the CPU. Returns a cudaError_t: 0 is success.
int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales, bool fast,
        void* scratch, void* stream);

}  // namespace [[ module ]]_impl
