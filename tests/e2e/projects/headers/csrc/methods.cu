#include <ATen/ATen.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

at::Tensor methods(at::Tensor in) {
  zero<<<1, 32>>>(in.data_ptr<float>());
  return in.view({-1, 4}).permute({1, 0}).contiguous().unsqueeze(0).expand({2, 4, -1}).clamp_min(0).to(at::kHalf);
}
