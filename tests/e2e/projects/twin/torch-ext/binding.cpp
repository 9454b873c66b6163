#include <torch/library.h>

#include "answer.h"
#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("answer() -> int", []() { return static_cast<int64_t>(answer()); });
  ops.def("count() -> int", []() { return static_cast<int64_t>(++counter()); });
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
