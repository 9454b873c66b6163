#pragma once

#include <torch/csrc/stable/tensor.h>

void relu(torch::stable::Tensor& out, const torch::stable::Tensor& input);
