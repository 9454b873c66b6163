#pragma once

#include <ATen/core/Tensor.h>

void relu(at::Tensor& out, const at::Tensor& input);
