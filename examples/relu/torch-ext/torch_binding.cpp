// Registers the op with torch and hands its tensors to the kernels as plain pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#ifndef CPU_KERNEL
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "relu_cuda/relu.h"
#else
#include "relu_cpu/relu.h"
#endif

#include "registration.h"

namespace {

void check(const at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(out.sizes() == input.sizes(), "relu: out has shape ", out.sizes(), ", input ", input.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "relu: out is ", out.scalar_type(), ", input ",
              input.scalar_type());
  TORCH_CHECK(out.device() == input.device(), "relu: out is on ", out.device(), ", input on ", input.device());
  TORCH_CHECK(out.is_contiguous(), "relu: out must be contiguous");
}

#ifndef CPU_KERNEL

relu_cuda::Format format_of(const at::Tensor& input) {
  switch (input.scalar_type()) {
    case at::kFloat:
      return relu_cuda::Format::float32;
    case at::kHalf:
      return relu_cuda::Format::float16;
    case at::kBFloat16:
      return relu_cuda::Format::bfloat16;
    default:
      TORCH_CHECK(false, "relu: no kernel for ", input.scalar_type());
  }
}

void relu_out(at::Tensor& out, const at::Tensor& input) {
  check(out, input);
  const at::Tensor dense = input.contiguous();
  const c10::cuda::CUDAGuard guard(dense.device());
  C10_CUDA_CHECK(relu_cuda::launch(format_of(dense), out.data_ptr(), dense.const_data_ptr(), dense.numel(),
                                   c10::cuda::getCurrentCUDAStream()));
}

#else

void relu_out(at::Tensor& out, const at::Tensor& input) {
  check(out, input);
  const at::Tensor dense = input.contiguous();
  const void* from = dense.const_data_ptr();
  void* to = out.data_ptr();
  switch (dense.scalar_type()) {
    case at::kFloat:
      return relu_cpu::float32(static_cast<float*>(to), static_cast<const float*>(from), dense.numel());
    case at::kHalf:
      return relu_cpu::float16(static_cast<std::uint16_t*>(to), static_cast<const std::uint16_t*>(from), dense.numel());
    case at::kBFloat16:
      return relu_cpu::bfloat16(static_cast<std::uint16_t*>(to), static_cast<const std::uint16_t*>(from),
                                dense.numel());
    default:
      TORCH_CHECK(false, "relu: no kernel for ", dense.scalar_type());
  }
}

#endif

at::Tensor relu(const at::Tensor& input) {
  at::Tensor out = at::empty_like(input, {}, at::MemoryFormat::Contiguous);
  relu_out(out, input);
  return out;
}

// Stands before an op that has no backward. Without it torch would let training go on, and leave gradients out.
void no_backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const bool records = c10::GradMode::is_enabled();
  const auto refuse = [&](const at::Tensor& tensor) {
    const std::string& name = op.operator_name().name;
    TORCH_CHECK(!(records && tensor.requires_grad()) && !tensor._fw_grad(0).defined(), name.substr(name.rfind(':') + 1),
                ": the op has no backward, but a tensor requires grad: call it under torch.no_grad(), pass "
                "tensor.detach(), or register a backward for it");
  };
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) {
      refuse(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        refuse(tensor);
      }
    }
  }
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def("relu(Tensor x) -> Tensor");
  ops.def("relu_out(Tensor! out, Tensor x) -> ()");
  ops.impl("relu_out", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
#ifndef CPU_KERNEL
  ops.impl("relu", c10::kCUDA, &relu);
  ops.impl("relu_out", c10::kCUDA, &relu_out);
#else
  ops.impl("relu", c10::kCPU, &relu);
  ops.impl("relu_out", c10::kCPU, &relu_out);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
