#include <torch/all.h>
#include <ATen/native/cuda/block_reduce.cuh>

static __global__ void total(const float* in, float* out) {
  __shared__ float shared[32];
  const float sum = at::native::cuda_utils::BlockReduceSum(in[threadIdx.x], shared);
  if (threadIdx.x == 0) *out = sum;
}

void block_reduce(const at::Tensor& in, at::Tensor& out) {
  total<<<1, 256>>>(in.const_data_ptr<float>(), out.data_ptr<float>());
}
