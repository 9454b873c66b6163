#pragma once
#include <ATen/core/Tensor.h>

at::Tensor scale(const at::Tensor& input, double factor);
