#include <cmath>

#include <torch/extension.h>

int64_t after(int64_t x) { return static_cast<int64_t>(std::sqrt(x)) + torch::ones({2}).numel(); }
