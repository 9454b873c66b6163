#include <torch/csrc/stable/library.h>

#include "registration.h"
#include "torch_binding.h"

void relu_into(torch::stable::Tensor out, torch::stable::Tensor input) { relu(out, input); }

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu(Tensor! out, Tensor input) -> ()");
}

#if defined(CPU_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#endif
  ops.impl("relu", TORCH_BOX(&relu_into));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
