#include <torch/library.h>

#include "../csrc/common.h"
#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sum() -> int", [] { return static_cast<int64_t>(sum()); });
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
