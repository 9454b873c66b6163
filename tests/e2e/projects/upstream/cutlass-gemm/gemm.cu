#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cutlass/gemm/device/gemm.h"

// out = a @ b in float32, with columns of `out` and rows of `a` and `b` contiguous.
void cutlass_gemm(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  using Row = cutlass::layout::RowMajor;
  using Gemm = cutlass::gemm::device::Gemm<float, Row, float, Row, float, Row>;
  TORCH_CHECK(a.is_contiguous() && b.is_contiguous() && out.is_contiguous(), "gemm: contiguous tensors only");
  TORCH_CHECK(a.scalar_type() == c10::kFloat && b.scalar_type() == c10::kFloat, "gemm: float32 only");
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  TORCH_CHECK(b.size(0) == k && out.size(0) == m && out.size(1) == n, "gemm: shapes");
  const c10::cuda::CUDAGuard guard(a.device());
  float* to = out.mutable_data_ptr<float>();
  const Gemm::Arguments arguments(
      {m, n, k}, {a.const_data_ptr<float>(), k}, {b.const_data_ptr<float>(), n}, {to, n}, {to, n}, {1.0f, 0.0f});
  Gemm gemm;
  const cutlass::Status status = gemm(arguments, nullptr, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status == cutlass::Status::kSuccess, cutlass::cutlassGetStatusString(status));
}
