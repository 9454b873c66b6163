#pragma once

#include <cuda_runtime.h>

#include <cstdint>

cudaError_t scale_cuda(float* output, const float* input, int64_t size, float factor, cudaStream_t stream);
