#include <torch/all.h>
#include <torch/library.h>

#include "registration.h"

torch::Tensor zeros(const torch::Tensor& in) { return torch::zeros_like(in); }

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("zeros(Tensor input) -> Tensor");
  ops.impl("zeros", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(zeros));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
