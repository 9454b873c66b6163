#pragma once
#include <cuda_runtime.h>

#include <cstddef>

// Both run on a stream; the size of the scratch memory is asked for with a null pointer.
cudaError_t sum(void* scratch, size_t& bytes, const float* in, float* out, int count, cudaStream_t stream);
cudaError_t sort(void* scratch, size_t& bytes, const int* in, int* out, int count, cudaStream_t stream);

// out = 2 * in + 1
cudaError_t affine(const float* in, float* out, int count, cudaStream_t stream);
