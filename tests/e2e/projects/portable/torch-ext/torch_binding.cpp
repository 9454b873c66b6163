#include <torch/library.h>

#include "csrc/portable.h"
#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("scaled(Tensor input, float factor=2.0, Tensor? bias=None) -> Tensor");
  ops.def("add_(Tensor(a!) target, Tensor other, *, int times=1) -> ()");
  ops.impl("scaled", c10::kCPU, &scaled);
  ops.impl("add_", c10::DispatchKey::CPU, &add_);
  ops.def("halves(Tensor input, int[] shape) -> Tensor[]", &halves);
}

TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("counted(Tensor input) -> (Tensor, int)"); }

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) { ops.impl("counted", TORCH_FN(counted)); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
