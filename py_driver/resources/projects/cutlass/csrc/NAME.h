// What the binding calls. No type of torch or CUDA is named here.
#pragma once

namespace [[ module ]]_impl {

// out = max(a @ b + bias, 0), in float16 with sums in float32.
//
// All are dense, row by row: `a` is rows x depth, `b` depth x columns, `bias` one row. `columns` and `depth` are
// multiples of 8. `stream` is a cudaStream_t. Returns a cudaError_t: 0 is success.
int run(void* out, const void* a, const void* b, const void* bias, int rows, int columns, int depth, void* stream);

}  // namespace [[ module ]]_impl
