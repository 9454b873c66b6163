#pragma once

#include <torch/csrc/stable/tensor.h>

void scale_cpu(torch::stable::Tensor& output, const torch::stable::Tensor& input, double factor);
