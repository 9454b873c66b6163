#include <torch/library.h>

#include "registration.h"
#include "torch_binding.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("count() -> int", &count);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
