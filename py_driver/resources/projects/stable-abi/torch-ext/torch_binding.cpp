// Registers the op through torch's stable ABI: C functions, which the headers wrap. Other headers of torch would bind
// the kernel to one release.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
[% if cuda %]
#include <torch/csrc/stable/accelerator.h>
[% endif %]
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
[% if cuda %]
[% if cpu %]
#ifdef CUDA_KERNEL
[% endif %]
#include <cuda_runtime_api.h>
[% endif %]
[% if cpu and cuda %]
#else
[% endif %]
[% if cpu %]
#include <dlfcn.h>
[% endif %]
[% if cpu and cuda %]
#endif
[% endif %]

#include "[[ module ]].h"
#include "registration.h"

using torch::stable::Tensor;

namespace {

Tensor [[ module ]]_op(const Tensor& input) {
  STD_TORCH_CHECK(input.scalar_type() == torch::headeronly::ScalarType::Float, "[[ module ]]: no kernel for this type");
  STD_TORCH_CHECK(input.is_contiguous(), "[[ module ]]: the input must be contiguous");
  Tensor out = torch::stable::empty_like(input);
  auto* to = static_cast<float*>(out.data_ptr());
  const auto* from = static_cast<const float*>(input.data_ptr());
[% if cuda %]
[% if cpu %]
#ifdef CUDA_KERNEL
[% endif %]
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(input.get_device_index(), &stream));
  const auto result = static_cast<cudaError_t>([[ module ]]_impl::run(to, from, input.numel(), stream));
  STD_TORCH_CHECK(result == cudaSuccess, cudaGetErrorString(result));
[% endif %]
[% if cpu and cuda %]
#else
[% endif %]
[% if cpu %]
  // OpenMP in this thread is to know what torch.set_num_threads was given in another one. torch has it from 2.10 on.
  static const auto get_num_threads =
      reinterpret_cast<AOTITorchError (*)(std::uint32_t*)>(dlsym(RTLD_DEFAULT, "torch_get_num_threads"));
  std::uint32_t threads = 0;
  if (get_num_threads != nullptr) {
    STABLE_TORCH_ERROR_CODE_CHECK(get_num_threads(&threads));
  }
  [[ module ]]_impl::run(to, from, input.numel(), nullptr);
[% endif %]
[% if cpu and cuda %]
#endif
[% endif %]
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("[[ module ]](Tensor input) -> Tensor");
}

[% if cpu and cuda %]
#ifdef CUDA_KERNEL
[% endif %]
[% if cuda %]
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
[% endif %]
[% if cpu and cuda %]
#else
[% endif %]
[% if cpu %]
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
[% endif %]
[% if cpu and cuda %]
#endif
[% endif %]
  ops.impl("[[ module ]]", TORCH_BOX(&[[ module ]]_op));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
