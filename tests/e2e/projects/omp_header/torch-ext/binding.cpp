#include <torch/library.h>

#include "cpu/count.hpp"
#include "registration.h"

std::tuple<int64_t, int64_t, bool> counts() {
  int64_t team = 0;
  int64_t largest = 0;
  bool with_openmp = false;
  count(&team, &largest, &with_openmp);
  return {team, largest, with_openmp};
}

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("counts() -> (int, int, bool)", &counts); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
