#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "csrc/relu.h"
#include "registration.h"

namespace {

at::Tensor relu_of(const at::Tensor& in) {
  TORCH_CHECK(in.is_cuda() && in.is_contiguous() && in.scalar_type() == at::kFloat, "`in` is not float32 on a GPU");
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(relu(in.const_data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(in.numel()), stream));
  return out;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu(Tensor x) -> Tensor");
  ops.impl("relu", at::kCUDA, &relu_of);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
