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
  case width: return norm_##width(kind, centered, of, stream)

cudaError_t run(int64_t width, int kind, bool centered, const Rows& of, cudaStream_t stream) {
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

void check(const at::Tensor& in, const at::Tensor& scale) {
  TORCH_CHECK(in.is_cuda() && in.is_contiguous() && in.dim() == 2, "`in` is not a matrix on a GPU");
  TORCH_CHECK(scale.scalar_type() == at::kFloat && scale.is_contiguous() && scale.numel() == in.size(1), "`scale`");
}

void start(const at::Tensor& in, Rows of, bool centered) {
  const int type = in.scalar_type() == at::kFloat ? 0 : in.scalar_type() == at::kHalf ? 2 : 5;
  of.in = in.const_data_ptr();
  of.rows = static_cast<int>(in.size(0));
  C10_CUDA_CHECK(run(in.size(1), type, centered, of, c10::cuda::getCurrentCUDAStream()));
}

at::Tensor norm(const at::Tensor& in, const at::Tensor& scale, double epsilon, bool centered) {
  check(in, scale);
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  start(in, {nullptr, nullptr, nullptr, scale.const_data_ptr(), out.data_ptr(), 0, float(epsilon)}, centered);
  return out;
}

at::Tensor add_norm(const at::Tensor& in, at::Tensor& sum, const at::Tensor& scale, double epsilon, bool centered) {
  check(in, scale);
  TORCH_CHECK(sum.is_contiguous() && sum.sizes() == in.sizes() && sum.scalar_type() == in.scalar_type(), "`sum`");
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  start(in, {nullptr, sum.data_ptr(), nullptr, scale.const_data_ptr(), out.data_ptr(), 0, float(epsilon)}, centered);
  return out;
}

at::Tensor gradient(const at::Tensor& of, const at::Tensor& in, const at::Tensor& scale, double epsilon, bool centered) {
  check(in, scale);
  TORCH_CHECK(of.is_contiguous() && of.sizes() == in.sizes() && of.scalar_type() == in.scalar_type(), "`of`");
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  const Rows rows = {nullptr, nullptr, of.const_data_ptr(), scale.const_data_ptr(), out.data_ptr(), 0, float(epsilon)};
  start(in, rows, centered);
  return out;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("norm(Tensor x, Tensor scale, float epsilon, bool centered) -> Tensor");
  ops.def("add_norm(Tensor x, Tensor(a!) sum, Tensor scale, float epsilon, bool centered) -> Tensor");
  ops.def("gradient(Tensor of, Tensor x, Tensor scale, float epsilon, bool centered) -> Tensor");
  ops.impl("norm", at::kCUDA, &norm);
  ops.impl("add_norm", at::kCUDA, &add_norm);
  ops.impl("gradient", at::kCUDA, &gradient);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
