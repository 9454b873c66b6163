// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

// How a row is reduced on a GPU.
constexpr int kWarp = 0;    // a warp keeps it in registers: up to kColumns[0] columns
constexpr int kShared = 1;  // a block keeps it in shared memory: up to kColumns[1] columns
constexpr int kBlock = 2;   // a large block reads it twice: any number of columns
constexpr int kVariants = 3;
constexpr int kByLength = 3;  // one of these, by the length of a row
constexpr std::int64_t kColumns[kVariants] = {1024, 8192, INT64_MAX};

// out[r, c] = exp(in[r, c]) / sum over the row of exp(in[r, :]).
//
// Both are dense, with elements of `type`. `variant` is one of those above; -1 takes what tuned.h says. `stream` is a
// cudaStream_t, and null on the CPU. Returns a cudaError_t: 0 is success.
int run(Type type, void* out, const void* in, std::int64_t rows, std::int64_t columns, int variant, void* stream);

}  // namespace [[ module ]]_impl
