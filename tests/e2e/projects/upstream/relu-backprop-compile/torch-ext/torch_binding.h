#pragma once

#include <ATen/core/Tensor.h>

at::Tensor relu_fwd(const at::Tensor& input);
at::Tensor relu_bwd(const at::Tensor& grad_output, const at::Tensor& input);
