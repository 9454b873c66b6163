#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "curve.cuh"
#include "kernels.h"

namespace {

__global__ void inner(float* values, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) values[i] = curve(values[i], i);
}

__global__ void outer(float* values, int size) {
  if (threadIdx.x == 0) inner<<<(size + 127) / 128, 128>>>(values, size);
}

}  // namespace

void nest(at::Tensor x) {
  outer<<<1, 32, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), static_cast<int>(x.numel()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
