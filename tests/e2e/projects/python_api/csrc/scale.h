#pragma once

#include <torch/extension.h>

torch::Tensor scale(torch::Tensor const& input, double factor);
