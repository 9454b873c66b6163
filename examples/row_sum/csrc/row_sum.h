// Sums of the rows of a matrix on a GPU, without torch: pointers and a stream in, an error code out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace row_sum {

// out[i] = in[i][0] + ... + in[i][columns - 1] for each of `rows` rows, which lie one after another.
cudaError_t launch(float* out, const float* in, std::int64_t rows, std::int64_t columns, cudaStream_t stream);

}  // namespace row_sum
