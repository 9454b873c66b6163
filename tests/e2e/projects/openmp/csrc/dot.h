#pragma once

#include <ATen/core/Tensor.h>

/// SCALE times the sum of the products.
double dot(const at::Tensor &a, const at::Tensor &b);

/// How many threads a parallel region has at most.
int64_t threads();

/// How many threads a parallel region has.
int64_t team();
