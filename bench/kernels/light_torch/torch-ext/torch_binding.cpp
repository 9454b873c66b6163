#include <torch/library.h>

#include "csrc/relu.h"
#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu(Tensor x) -> Tensor");
  ops.impl("relu", at::kCUDA, &relu);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
