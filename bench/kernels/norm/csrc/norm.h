#pragma once
#include <cuda_runtime.h>

// Layer normalisation of `rows` rows of one width; the types of input and output follow from `kind`, 0 to 8.
#define DECLARE_NORM(width) \
  cudaError_t norm_##width(int kind, const void* in, const void* scale, void* out, int rows, float epsilon, \
                           cudaStream_t stream);

DECLARE_NORM(128)
DECLARE_NORM(256)
DECLARE_NORM(384)
DECLARE_NORM(512)
DECLARE_NORM(640)
DECLARE_NORM(768)
DECLARE_NORM(1024)
DECLARE_NORM(1280)
DECLARE_NORM(1536)
DECLARE_NORM(2048)
#undef DECLARE_NORM
