#include <torch/library.h>

#include <tuple>

#include "registration.h"

int64_t sum(int64_t n, int64_t *threads);

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sum(int n) -> (int, int)", [](int64_t n) {
    int64_t threads = 0;
    const int64_t total = sum(n, &threads);
    return std::make_tuple(total, threads);
  });
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
