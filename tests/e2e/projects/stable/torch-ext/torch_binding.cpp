// Registers the op through torch's stable ABI: C functions, which the headers wrap.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "registration.h"

#if defined(CUDA_KERNEL)
#include "csrc/scale_cuda.h"
#else
#include "csrc/scale_cpu.h"
#endif

using torch::stable::Tensor;

namespace {

Tensor scale(const Tensor& input, double factor) {
  STD_TORCH_CHECK(input.scalar_type() == torch::headeronly::ScalarType::Float, "`input` is not float32");
  STD_TORCH_CHECK(input.is_contiguous(), "`input` is not contiguous");
  Tensor output = torch::stable::empty_like(input);
#if defined(CUDA_KERNEL)
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(input.get_device_index(), &stream));
  const cudaError_t result = scale_cuda(
      static_cast<float*>(output.data_ptr()),
      static_cast<const float*>(input.data_ptr()),
      input.numel(),
      static_cast<float>(factor),
      static_cast<cudaStream_t>(stream));
  STD_TORCH_CHECK(result == cudaSuccess, cudaGetErrorString(result));
#else
  scale_cpu(output, input, factor);
#endif
  return output;
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("scale(Tensor input, float factor) -> Tensor");
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#endif
  ops.impl("scale", TORCH_BOX(&scale));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
