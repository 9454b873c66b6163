#include <torch/all.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

torch::Tensor module(torch::Tensor in) {
  torch::nn::Linear linear(torch::nn::LinearOptions(4, 2).bias(false));
  zero<<<1, 32>>>(in.data_ptr<float>());
  return torch::nn::functional::relu(linear->forward(in));
}
