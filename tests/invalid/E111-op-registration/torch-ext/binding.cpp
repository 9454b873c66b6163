#include <torch/library.h>

#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("scale(Tensor input, double factor) -> Tensor");
  ops.def("add(Tensor input, "
          "int64_t[] by, bool in) -> Tensor");
  ops.def("shift(Tensor input, float by=0.5, int by_more) -> Tensor");
  ops.def(R"(clamp(Tensor input, bool low=false) -> Tensor)");
  ops.def("relu(Tensor! out, Tensor input)");
  ops.def("name");
#if defined(SOME)
  ops.def("some(string name) -> ()");
#endif
  ops.def("twice(Tensor input) -> Tensor", &twice);
  ops.def("twice(Tensor input) -> Tensor", &twice);
}

TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("other::foreign(Tensor input) -> Tensor", &twice);
  ops.def("dims(Tensor input, int[] dims=None) -> Tensor", &twice);
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.def("late(Tensor input) -> Tensor", &twice);
}

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}

REGISTER_EXTENSION(relu)
