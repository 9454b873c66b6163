#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

void events(at::Tensor& out) {
  at::cuda::CUDAEvent event;
  zero<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<float>());
  event.record(at::cuda::getCurrentCUDAStream());
  event.synchronize();
  out.record_stream(at::cuda::getCurrentCUDAStream());
}
