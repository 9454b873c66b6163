#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>

static __global__ void zero(float* out) { out[blockIdx.x] = 0; }

int64_t properties(at::Tensor& out) {
  const cudaDeviceProp* found = at::cuda::getCurrentDeviceProperties();
  zero<<<found->multiProcessorCount, 1>>>(out.data_ptr<float>());
  AT_CUDA_CHECK(cudaGetLastError());
  return found->major * 10 + found->minor;
}
