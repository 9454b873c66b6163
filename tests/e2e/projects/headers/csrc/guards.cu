#include <torch/all.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

void guards(at::Tensor& out) {
  const at::cuda::OptionalCUDAGuard guard(at::device_of(out));
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard other(stream);
  zero<<<1, 32, 0, stream>>>(out.data_ptr<float>());
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
}
