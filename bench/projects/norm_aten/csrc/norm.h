#pragma once
#include <ATen/core/Tensor.h>

// RMS normalisation of the rows of `in`, which all have one width, and the gradient of its input.
#define DECLARE_NORM(width)                                                                 \
  at::Tensor norm_##width(const at::Tensor& in, const at::Tensor& scale, double epsilon);   \
  at::Tensor gradient_##width(const at::Tensor& of, const at::Tensor& in, const at::Tensor& scale, double epsilon);

DECLARE_NORM(256)
DECLARE_NORM(512)
DECLARE_NORM(1024)
DECLARE_NORM(2048)
#undef DECLARE_NORM
