#pragma once
#include <ATen/core/Tensor.h>

at::Tensor relu(const at::Tensor& in);
