#include <torch/library.h>

#include "csrc/norm.h"
#include "registration.h"

namespace {

void check(const at::Tensor& in, const at::Tensor& scale) {
  TORCH_CHECK(in.is_cuda() && in.is_contiguous() && in.dim() == 2, "`in` is not a matrix on a GPU");
  TORCH_CHECK(scale.device() == in.device() && scale.scalar_type() == in.scalar_type(), "`scale` is unlike `in`");
  TORCH_CHECK(scale.is_contiguous() && scale.numel() == in.size(1), "`scale` does not have the width of `in`");
}

at::Tensor norm(const at::Tensor& in, const at::Tensor& scale, double epsilon) {
  check(in, scale);
  switch (in.size(1)) {
    case 256: return norm_256(in, scale, epsilon);
    case 512: return norm_512(in, scale, epsilon);
    case 1024: return norm_1024(in, scale, epsilon);
    case 2048: return norm_2048(in, scale, epsilon);
    default: TORCH_CHECK(false, "no kernel has the width of `in`");
  }
}

at::Tensor gradient(const at::Tensor& of, const at::Tensor& in, const at::Tensor& scale, double epsilon) {
  check(in, scale);
  TORCH_CHECK(of.is_contiguous() && of.sizes() == in.sizes() && of.scalar_type() == in.scalar_type(), "`of`");
  TORCH_CHECK(of.device() == in.device(), "`of` is on another device than `in`");
  switch (in.size(1)) {
    case 256: return gradient_256(of, in, scale, epsilon);
    case 512: return gradient_512(of, in, scale, epsilon);
    case 1024: return gradient_1024(of, in, scale, epsilon);
    case 2048: return gradient_2048(of, in, scale, epsilon);
    default: TORCH_CHECK(false, "no kernel has the width of `in`");
  }
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("norm(Tensor x, Tensor scale, float epsilon) -> Tensor");
  ops.def("gradient(Tensor of, Tensor x, Tensor scale, float epsilon) -> Tensor");
  ops.impl("norm", at::kCUDA, &norm);
  ops.impl("gradient", at::kCUDA, &gradient);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
