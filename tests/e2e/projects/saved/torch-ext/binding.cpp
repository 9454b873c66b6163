#include <ATen/ATen.h>
#include <torch/library.h>

#include "registration.h"
#include "shift.h"

static at::Tensor shifted(const at::Tensor& input, double by) {
  auto output = at::empty_like(input);
  shift(input.const_data_ptr<float>(), output.mutable_data_ptr<float>(), input.numel(), static_cast<float>(by));
  return output;
}

static void shift_(at::Tensor& input, double by) {
  shift(input.const_data_ptr<float>(), input.mutable_data_ptr<float>(), input.numel(), static_cast<float>(by));
}

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("shifted(Tensor input, float by=1.0) -> Tensor");
  ops.def("shift_(Tensor(a!) input, *, float by=1.0) -> ()");
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("shifted", &shifted);
  ops.impl("shift_", &shift_);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
