#include <ATen/core/Tensor.h>

void relu(at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(input.scalar_type() == c10::kFloat && out.scalar_type() == c10::kFloat, "relu: float32 only");
  TORCH_CHECK(input.is_contiguous() && out.is_contiguous() && input.sizes() == out.sizes(), "relu: other layouts");
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < input.numel(); ++i) {
    to[i] = from[i] > 0.0f ? from[i] : 0.0f;
  }
}
