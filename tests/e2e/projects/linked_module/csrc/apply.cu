#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "curve.cuh"
#include "kernels.h"

static __device__ int own;

__global__ void apply_kernel(const float* in, float* out, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  own = size;
  out[i] = curve(in[i], i) + table[0];
}

at::Tensor apply(const at::Tensor& x) {
  const int size = static_cast<int>(x.numel());
  at::Tensor out = at::empty_like(x);
  apply_kernel<<<(size + 127) / 128, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.data_ptr<float>(), size);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
