#include <torch/library.h>

#include "registration.h"
#include "simd.h"

namespace {

int64_t dot_of(const at::Tensor &a, const at::Tensor &b) {
  return dot(a.const_data_ptr<int8_t>(), b.const_data_ptr<int8_t>(), a.numel());
}

int64_t sum_of(const at::Tensor &values) { return sum(values.const_data_ptr<int32_t>(), values.numel()); }

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("dot(Tensor a, Tensor b) -> int", &dot_of);
  ops.def("sum(Tensor values) -> int", &sum_of);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
