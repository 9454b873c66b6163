#pragma once
#include <cuda_runtime.h>

cudaError_t relu(const float* in, float* out, int count, cudaStream_t stream);
