#pragma once

#include <torch/torch.h>

/// SCALE times the sum of the products.
double dot(const torch::Tensor &a, const torch::Tensor &b);

/// How many threads a parallel region has at most.
int64_t threads();

/// How many threads a parallel region has.
int64_t team();
