// Registers the op with torch and hands its tensors to the kernel as plain pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "registration.h"
#include "row_sum.h"

namespace {

at::Tensor row_sum_op(const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 2, "row_sum: input has ", input.dim(), " dimensions, not 2");
  TORCH_CHECK(input.scalar_type() == at::kFloat, "row_sum: input is ", input.scalar_type(), ", not float32");
  const at::Tensor dense = input.contiguous();
  const c10::cuda::CUDAGuard guard(dense.device());
  const at::Tensor out = at::empty({dense.size(0)}, dense.options());
  C10_CUDA_CHECK(row_sum::launch(out.data_ptr<float>(), dense.const_data_ptr<float>(), dense.size(0), dense.size(1),
                                 c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def("row_sum(Tensor x) -> Tensor");
  // A torch for ROCm calls AMD's GPUs `cuda` too.
  ops.impl("row_sum", c10::kCUDA, &row_sum_op);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
