#include <torch/library.h>

#include "dot.h"
#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("dot(Tensor a, Tensor b) -> float", &dot);
  ops.def("threads() -> int", &threads);
  ops.def("team() -> int", &team);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
