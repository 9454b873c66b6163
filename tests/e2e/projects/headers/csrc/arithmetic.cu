#include <ATen/ATen.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

at::Tensor arithmetic(const at::Tensor& a, at::Tensor b) {
  zero<<<1, 32>>>(b.data_ptr<float>());
  b += a * 2 - 1.5 / (a + 1);
  return (a > b).logical_and(b != 0).to(at::kFloat) * -b;
}
