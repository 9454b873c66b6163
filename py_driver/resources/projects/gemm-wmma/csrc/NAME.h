// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

// Of `a` and `b`. The output has the same, and int32 for int8. Sums are float32 and int32; those of narrow_float16 are
// float16: faster on some GPUs, and far less exact.
enum class Type { float16, narrow_float16, bfloat16, int8 };

struct Sizes {
  std::int64_t rows;     // of a and out
  std::int64_t columns;  // of b and out
  std::int64_t depth;    // columns of a, rows of b
  bool by_columns;       // whether b lies column by column, as the transpose of a weight does
};

// The bytes of device memory that `run` needs as `scratch` for these matrices: for copies of those whose rows are not
// aligned, and for the sums of parts of the depth. 0 on the CPU.
std::int64_t scratch_bytes(Type type, const void* out, const void* a, const void* b, const Sizes& sizes);

// out = a @ b; all are dense, row by row but for `by_columns`. `stream` is a cudaStream_t, and null on the CPU. Returns
// a cudaError_t: 0 is success.
int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void* scratch, void* stream);

}  // namespace [[ module ]]_impl
