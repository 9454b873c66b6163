#include <torch/torch.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

torch::Tensor sparse_tensor(const torch::Tensor& indices, torch::Tensor values) {
  zero<<<1, 32>>>(values.data_ptr<float>());
  return torch::sparse_coo_tensor(indices, values, {8, 8}).coalesce().to_dense();
}
