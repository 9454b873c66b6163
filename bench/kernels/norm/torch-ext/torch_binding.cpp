#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "csrc/norm.h"
#include "registration.h"

namespace {

#define CASE(width) \
  case width: return norm_##width(kind, in, scale, out, rows, epsilon, stream)

cudaError_t run(int64_t width, int kind, const void* in, const void* scale, void* out, int rows, float epsilon,
                cudaStream_t stream) {
  switch (width) {
    CASE(128);
    CASE(256);
    CASE(384);
    CASE(512);
    CASE(640);
    CASE(768);
    CASE(1024);
    CASE(1280);
    CASE(1536);
    CASE(2048);
    default: return cudaErrorInvalidValue;
  }
}

at::Tensor norm(const at::Tensor& in, const at::Tensor& scale, double epsilon, bool centered) {
  TORCH_CHECK(in.is_cuda() && in.is_contiguous() && in.dim() == 2, "`in` is not a matrix on a GPU");
  TORCH_CHECK(scale.scalar_type() == at::kFloat && scale.is_contiguous() && scale.numel() == in.size(1), "`scale`");
  const int type = in.scalar_type() == at::kFloat ? 0 : in.scalar_type() == at::kHalf ? 1 : 2;
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  C10_CUDA_CHECK(run(in.size(1), type + (centered ? 0 : 5), in.const_data_ptr(), scale.const_data_ptr(), out.data_ptr(),
                     static_cast<int>(in.size(0)), static_cast<float>(epsilon), c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("norm(Tensor x, Tensor scale, float epsilon, bool centered) -> Tensor");
  ops.impl("norm", at::kCUDA, &norm);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
