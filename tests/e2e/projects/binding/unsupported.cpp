// What a binding without Python cannot have: each line of m has its own error, with the line.
#include <torch/extension.h>

#include <pybind11/numpy.h>

#include <thread>
struct Camera { int w; };
at::Tensor a(at::Tensor x, py::dict options) { return x; }
at::Tensor b(at::Tensor x, float* p) { return x; }
at::Tensor c(Camera camera, at::Tensor x) { return x; }
py::object d(at::Tensor x) { return py::none(); }
int e(py::args args, const py::array_t<float>& y) { return 0; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("a", &a);
  m.def("b", &b, py::arg("x"), py::arg("p"));
  m.def("c", &c);
  m.def("d", &d);
  m.def("e", &e);
  py::class_<Camera>(m, "Camera").def(py::init<>()).def_readwrite("w", &Camera::w);
  m.def("f", [](at::Tensor x) { return x; }, py::arg("x"), py::arg("y"));
  m.attr("t") = std::thread();
}
