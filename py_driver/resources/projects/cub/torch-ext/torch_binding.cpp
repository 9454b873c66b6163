// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

kernel::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kernel::Type::float32;
    case at::kInt:
      return kernel::Type::int32;
    case at::kLong:
      return kernel::Type::int64;
    default:
      TORCH_CHECK(false, "[[ module ]]: no kernel for ", tensor.scalar_type());
  }
}

void [[ module ]]_op(at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 1, "[[ module ]]: the input has ", input.dim(), " dimensions, not one");
  TORCH_CHECK(out.sizes() == input.sizes(), "[[ module ]]: out has shape ", out.sizes(), ", input ", input.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "[[ module ]]: out is ", out.scalar_type(), ", input ",
              input.scalar_type());
  TORCH_CHECK(out.device() == input.device(), "[[ module ]]: out is on ", out.device(), ", input on ", input.device());
  TORCH_CHECK(out.is_contiguous(), "[[ module ]]: out must be contiguous");
  const at::Tensor from = input.contiguous();
  at::assert_no_partial_overlap(out, from);
  const kernel::Type type = type_of(from);
  const c10::cuda::CUDAGuard guard(from.device());
  void* const stream = c10::cuda::getCurrentCUDAStream().stream();
  void* const to = out.data_ptr();
  // Without working memory CUB says how much it needs. Memory of torch's is bound to the stream.
  std::size_t bytes = 0;
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      kernel::run(type, nullptr, &bytes, to, from.const_data_ptr(), from.numel(), stream)));
  const at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)}, from.options().dtype(at::kByte));
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      kernel::run(type, memory.data_ptr(), &bytes, to, from.const_data_ptr(), from.numel(), stream)));
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("[[ module ]](Tensor! out, Tensor input) -> ()");
  ops.impl("[[ module ]]", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  ops.impl("[[ module ]]", c10::kCUDA, &[[ module ]]_op);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
