#include <torch/library.h>

#include "registration.h"
#include "threads.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("step() -> int", &step);
  ops.def("once() -> int", &once);
  ops.def("parallel(int size) -> int", &parallel);
  ops.def("openmp(int size) -> int", &openmp);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
