// ReLU on a CUDA device, without torch: pointers and a stream in, an error code out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace relu_cuda {

enum class Format { float32, float16, bfloat16 };

// out[i] = in[i] where it is positive or NaN, else 0, for `count` elements on the stream; `out` may be `in`.
cudaError_t launch(Format format, void* out, const void* in, std::int64_t count, cudaStream_t stream);

}  // namespace relu_cuda
