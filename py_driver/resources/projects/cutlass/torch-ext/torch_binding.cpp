// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

void [[ module ]]_op(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  for (const at::Tensor& tensor : {a, b, bias, static_cast<const at::Tensor&>(out)}) {
    TORCH_CHECK(tensor.scalar_type() == at::kHalf, "[[ module ]]: no kernel for ", tensor.scalar_type());
    TORCH_CHECK(tensor.device() == a.device(), "[[ module ]]: tensors are on several devices");
    TORCH_CHECK(tensor.is_contiguous(), "[[ module ]]: all tensors must be contiguous");
  }
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "[[ module ]]: a has shape ", a.sizes(), ", b ",
              b.sizes());
  TORCH_CHECK(out.dim() == 2 && out.size(0) == a.size(0) && out.size(1) == b.size(1), "[[ module ]]: out has shape ",
              out.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == b.size(1), "[[ module ]]: bias has shape ", bias.sizes());
  TORCH_CHECK(a.size(1) % 8 == 0 && b.size(1) % 8 == 0, "[[ module ]]: columns must be multiples of 8");
  TORCH_CHECK(a.size(0) < (1LL << 31) && a.size(1) < (1LL << 31) && b.size(1) < (1LL << 31),
              "[[ module ]]: a dimension is too large");
  for (const at::Tensor& read : {a, b, bias}) {
    at::assert_no_overlap(out, read);
  }
  if (out.numel() == 0) {
    return;
  }
  const c10::cuda::CUDAGuard guard(a.device());
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      kernel::run(out.data_ptr(), a.const_data_ptr(), b.const_data_ptr(), bias.const_data_ptr(),
                  static_cast<int>(a.size(0)), static_cast<int>(b.size(1)), static_cast<int>(a.size(1)),
                  c10::cuda::getCurrentCUDAStream().stream())));
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("[[ module ]](Tensor! out, Tensor a, Tensor b, Tensor bias) -> ()");
  ops.impl("[[ module ]]", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  ops.impl("[[ module ]]", c10::kCUDA, &[[ module ]]_op);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
