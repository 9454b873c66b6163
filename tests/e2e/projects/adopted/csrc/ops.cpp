#include <torch/extension.h>
#include "scale.h"

namespace py = pybind11;

std::tuple<at::Tensor, int> sums(const std::vector<at::Tensor>& tensors, std::vector<int> weights);
void fill(at::Tensor& output, float value, std::optional<at::Tensor>& count);

namespace {

at::Tensor scale(const at::Tensor& input, double scale, std::optional<at::Tensor> bias) {
  TORCH_CHECK(input.dim() > 0, "scale needs a dimension");
#ifdef WITH_CUDA
  if (input.is_cuda()) {
    auto output = at::empty_like(input);
    scale_cuda(input.data_ptr<float>(), output.data_ptr<float>(), input.numel(), scale);
    return output;
  }
#endif
  auto output = input * scale * SCALE;
  return bias ? output + *bias : output;
}

uintptr_t address(at::Tensor tensor) { return reinterpret_cast<uintptr_t>(tensor.data_ptr()); }

int twice(unsigned char value) { return 2 * value; }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "scaled ops";
  m.attr("FACTOR") = 2;
  m.def("scale", &scale, "Scale a tensor.", py::arg("input"), py::arg("scale") = 2.0, py::arg("bias") = py::none());
  // One after the other.
  m.def("sums", &sums, py::call_guard<py::gil_scoped_release>()).def("fill", &fill);
  m.def("address", &address);
#ifdef WITH_CUDA
  m.def("backend", [](bool loud) -> std::string { return loud ? "CUDA" : "cuda"; }, py::arg("loud") = false);
#else
  m.def("backend", [](bool loud) -> std::string { return loud ? "CPU" : "cpu"; }, py::arg("loud") = false);
#endif
  m.def("twice", [](unsigned char value) { return twice(value); }, py::kw_only(), py::arg("value"));
}
