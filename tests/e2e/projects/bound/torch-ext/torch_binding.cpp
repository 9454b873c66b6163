#include <torch/extension.h>

#include "csrc/scale.h"
#include "registration.h"

namespace py = pybind11;

namespace {

py::dict sizes(const std::map<std::string, at::Tensor>& tensors) {
  py::dict found;
  for (const auto& [name, tensor] : tensors) found[py::str(name)] = tensor.sizes().vec();
  return found;
}

struct Counter {
  int count = 0;
};

at::Tensor negated(const at::Tensor& input) { return input.neg(); }

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("negated(Tensor input) -> Tensor", &negated); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", &scale, py::arg("input"), py::arg("factor") = 2.0);
  m.def("sizes", &sizes);
  m.def("call", [](const py::function& callback, const at::Tensor& input) { return callback(input); });
  py::class_<Counter>(m, "Counter").def(py::init<>()).def_readwrite("count", &Counter::count);
}
