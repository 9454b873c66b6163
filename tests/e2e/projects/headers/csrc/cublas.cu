#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>

static __global__ void zero(float* out) { *out = 0; }

void cublas(const at::Tensor& a, at::Tensor& out) {
  cublasHandle_t handle = at::cuda::getCurrentCUDABlasHandle();
  cublasMath_t mode;
  TORCH_CUDABLAS_CHECK(cublasGetMathMode(handle, &mode));
  zero<<<1, 1>>>(out.data_ptr<float>());
  at::mm_out(out, a, a.t());
}
