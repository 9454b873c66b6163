#pragma once

#include <ATen/core/Tensor.h>

void cutlass_gemm(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
