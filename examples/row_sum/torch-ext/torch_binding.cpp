// Registers the op with torch and hands its tensors to the kernel as plain pointers.
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "registration.h"
#include "row_sum.h"

namespace {

void row_sum_op(at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 2, "row_sum: input has ", input.dim(), " dimensions, not 2");
  TORCH_CHECK(input.scalar_type() == at::kFloat, "row_sum: input is ", input.scalar_type(), ", not float32");
  TORCH_CHECK(out.dim() == 1 && out.size(0) == input.size(0), "row_sum: out has shape ", out.sizes());
  TORCH_CHECK(out.scalar_type() == at::kFloat, "row_sum: out is ", out.scalar_type(), ", not float32");
  TORCH_CHECK(out.is_contiguous(), "row_sum: out must be contiguous");
  TORCH_CHECK(out.device() == input.device(), "row_sum: out is on ", out.device(), ", input on ", input.device());
  const at::Tensor dense = input.contiguous();
  const c10::cuda::CUDAGuard guard(dense.device());
  C10_CUDA_CHECK(row_sum::launch(out.data_ptr<float>(), dense.const_data_ptr<float>(), dense.size(0), dense.size(1),
                                 c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("row_sum(Tensor! out, Tensor input) -> ()");
  // A torch for ROCm calls AMD's GPUs `cuda` too.
  ops.impl("row_sum", c10::kCUDA, &row_sum_op);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
