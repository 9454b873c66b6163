// What a binding without Python cannot have: each line of m has its own error, with the line.
#include <torch/extension.h>

#include <pybind11/functional.h>
#include <pybind11/numpy.h>

#include <functional>
#include <thread>
template <class T>
struct Holder {};
struct Camera {
  virtual ~Camera() = default;
  int w;
};
struct PyCamera : Camera {};
struct Lens {};
struct Film {};
at::Tensor a(at::Tensor x, py::dict options) { return x; }
at::Tensor b(at::Tensor x, float* p) { return x; }
at::Tensor c(std::function<int()> call, at::Tensor x) { return x; }
py::object d(at::Tensor x) { return py::none(); }
int e(py::args args, const py::array_t<float>& y) { return 0; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("a", &a);
  m.def("b", &b, py::arg("x"), py::arg("p"));
  m.def("c", &c);
  m.def("d", &d);
  m.def("e", &e);
  py::class_<Camera, PyCamera>(m, "Camera").def(py::init<>()).def_readwrite("w", &Camera::w);
  py::class_<Lens, Holder<Lens>>(m, "Lens");
  py::class_<Film>(m, "Film", py::buffer_protocol()).def("f", [](Film&, py::dict d) {});
  py::implicitly_convertible<int, Film>();
  m.def("f", [](at::Tensor x) { return x; }, py::arg("x"), py::arg("y"));
  m.attr("t") = std::thread();
}
