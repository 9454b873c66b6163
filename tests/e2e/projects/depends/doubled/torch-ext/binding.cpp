#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "registration.h"

static at::Tensor doubled(const at::Tensor& x) { return x.mul(2); }

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("doubled(Tensor x) -> Tensor");
  ops.impl("doubled", c10::DispatchKey::CPU, &doubled);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
