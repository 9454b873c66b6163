#include <torch/library.h>

#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu(Tensor input) -> Tensor", &relu);
}
// REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
