#include <torch/library.h>

#include "registration.h"
#include "torch_binding.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu_fwd(Tensor input) -> Tensor");
  ops.impl("relu_fwd", c10::kCUDA, &relu_fwd);
  ops.def("relu_bwd(Tensor grad_output, Tensor input) -> Tensor");
  ops.impl("relu_bwd", c10::kCUDA, &relu_bwd);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
