#include "scale_cpu.h"

#include <cstdint>

#ifndef TORCH_TARGET_VERSION
#error "the rules say which torch an object must fit"
#endif

void scale_cpu(torch::stable::Tensor& output, const torch::stable::Tensor& input, double factor) {
  const auto* from = static_cast<const float*>(input.data_ptr());
  auto* to = static_cast<float*>(output.data_ptr());
  for (int64_t i = 0; i < input.numel(); ++i) {
    to[i] = from[i] * static_cast<float>(factor);
  }
}
