#include <torch/library.h>

#include "csrc/relu.h"
#include "registration.h"

namespace {

at::Tensor relu_of(const at::Tensor& in) {
  TORCH_CHECK(in.is_contiguous(), "`in` is not contiguous");
  return relu(in);
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu(Tensor x) -> Tensor");
  ops.impl("relu", at::kCUDA, &relu_of);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
