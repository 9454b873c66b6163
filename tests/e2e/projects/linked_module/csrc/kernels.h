#pragma once

#include <ATen/core/Tensor.h>

void set_table(const at::Tensor& values);
int calls_so_far();
at::Tensor apply(const at::Tensor& x);
void nest(at::Tensor x);
