#include <torch/all.h>

static __global__ void nothing(float* out) { *out = 0; }

torch::Tensor tensor_literal(const torch::Tensor& in) {
  auto weights = torch::tensor({1.0f, 2.0f, 3.0f}, torch::dtype(torch::kFloat32).device(torch::kCUDA));
  auto nested = torch::tensor({{1, 2}, {3, 4}});
  nothing<<<1, 1>>>(weights.data_ptr<float>());
  return weights + nested.sum() + in;
}
