#include <ATen/ATen.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

at::Tensor lists(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor both = at::cat({a, b}, 0);
  zero<<<1, 32>>>(both.data_ptr<float>());
  const std::vector<at::Tensor> parts = both.split(2);
  return at::stack(parts) + at::cat(at::TensorList(parts), 1).sum();
}
