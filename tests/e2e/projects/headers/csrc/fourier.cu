#include <torch/torch.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

torch::Tensor fourier(torch::Tensor in) {
  zero<<<1, 32>>>(in.data_ptr<float>());
  return torch::fft::rfft(in);
}
