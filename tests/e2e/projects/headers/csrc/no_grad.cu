#include <torch/all.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

torch::Tensor no_grad(torch::Tensor in) {
  torch::NoGradGuard guard;
  zero<<<1, 32>>>(in.data_ptr<float>());
  return in.detach().set_requires_grad(false);
}
