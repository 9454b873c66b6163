#include <torch/csrc/stable/tensor.h>

void relu(torch::stable::Tensor& out, const torch::stable::Tensor& input) {
  STD_TORCH_CHECK(input.scalar_type() == torch::headeronly::ScalarType::Float, "relu: float32 only");
  STD_TORCH_CHECK(input.is_contiguous() && out.is_contiguous() && input.numel() == out.numel(), "relu: other layouts");
  const float* from = static_cast<const float*>(input.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < input.numel(); ++i) {
    to[i] = from[i] > 0.0f ? from[i] : 0.0f;
  }
}
