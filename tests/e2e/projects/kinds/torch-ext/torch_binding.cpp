#include <torch/library.h>
#include "registration.h"
#include "k/part.tpp"
extern "C" int first();
static int64_t get() { return twice(first()); }
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("get() -> int", &get); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
