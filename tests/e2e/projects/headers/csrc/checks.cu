#include <ATen/ATen.h>
#include <ATen/TensorUtils.h>

static __global__ void zero(float* out) { out[threadIdx.x] = 0; }

void checks(at::Tensor& out) {
  TORCH_CHECK_VALUE(out.dim() == 2, "two dimensions, not ", out.dim());
  TORCH_CHECK_NOT_IMPLEMENTED(out.is_contiguous(), "strides ", out.strides());
  TORCH_INTERNAL_ASSERT(out.defined());
  AT_ASSERT(out.numel() > 0);
  at::checkAllSameGPU("checks", {at::TensorArg(out, "out", 1)});
  zero<<<1, 32>>>(out.data_ptr<float>());
}
