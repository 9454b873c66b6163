#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "csrc/gemm.h"
#include "registration.h"

namespace {

void check(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kHalf && tensor.dim() == 2, "not a matrix of float16");
  TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "a matrix is not contiguous on a GPU");
  TORCH_CHECK(tensor.size(0) % 8 == 0 && tensor.size(1) % 8 == 0, "a size is not a multiple of eight");
}

at::Tensor gemm(const at::Tensor& a, const at::Tensor& b) {
  check(a);
  check(b);
  TORCH_CHECK(a.size(1) == b.size(0), "the inner sizes differ");
  const c10::cuda::CUDAGuard guard(a.device());
  at::Tensor d = at::empty({a.size(0), b.size(1)}, a.options());
  const int m = static_cast<int>(a.size(0));
  const int n = static_cast<int>(b.size(1));
  const auto run = m < 1024 ? gemm_small : gemm_large;
  C10_CUDA_CHECK(run(n > m, d.data_ptr(), a.const_data_ptr(), b.const_data_ptr(), m, n, static_cast<int>(a.size(1)),
                     c10::cuda::getCurrentCUDAStream()));
  return d;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("gemm(Tensor a, Tensor b) -> Tensor");
  ops.impl("gemm", at::kCUDA, &gemm);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
