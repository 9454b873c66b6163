#pragma once
#include <cuda_runtime.h>

// What is normalised: `rows` rows of `in`, to which `residual` is added first if there is one. With the `gradient` of the
// result, `out` is that of `in`.
struct Rows {
  const void* in;
  void* residual;
  const void* gradient;
  const void* scale;
  void* out;
  int rows;
  float epsilon;
};

// Layer normalisation of rows of one width, or RMS if not `centered`; the types of input, scale and output follow from
// `kind`, 0 to 6.
#define DECLARE_NORM(width) cudaError_t norm_##width(int kind, bool centered, const Rows& of, cudaStream_t stream);

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
